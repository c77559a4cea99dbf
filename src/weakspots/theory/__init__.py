"""The idealised induction model of "Why compression concentrates": its loss, its minimisers and its gradient flow."""

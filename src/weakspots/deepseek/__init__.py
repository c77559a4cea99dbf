"""The paper's first half: weak spots of a deployed model family, and of tiny models that stand in for it."""

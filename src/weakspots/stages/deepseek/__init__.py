"""The stages that train a stand-in for DeepSeek's models, and ask it and them."""

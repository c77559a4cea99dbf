"""What is special in the planted results behind the page of tests/explorer."""

NOT_LOOKED_UP = "w8s8-1kv-uniform"
"""A run of the planted table that was not run."""

NASTY = "</script><script>window.broken = true</script><img src=x onerror='window.broken = true'>"
"""What no text of the data may turn into."""

COMPLETED = "v4.1-flash"
"""The model of DeepSeek's whose code completion was run, with planted answers."""

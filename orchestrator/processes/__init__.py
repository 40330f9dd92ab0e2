"""The processes of launches: how they are started, what they say, and how they end."""

"""Shipped models, one module a family: how to build, feed and train one."""

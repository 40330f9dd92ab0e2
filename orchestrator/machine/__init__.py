"""What there is: this host, its GPUs and their driver, its cores, and who uses them."""

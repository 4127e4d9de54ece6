def mistakes(*a): return []

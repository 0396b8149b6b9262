"""What runs the measures: the rows they give, the processes they use, the table they end in."""

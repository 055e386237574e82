"""What files looked like before: states kept in git, and put back."""

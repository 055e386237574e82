"""Tools of foreign servers: how they are reached, what they say of themselves, what is believed."""

"""One thin module per noun: parse, call one function of a room, hand the result to the output."""

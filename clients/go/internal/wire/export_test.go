package wire

// SkipTo makes the next request carry that id.
func (x *Exchange[T]) SkipTo(id uint64) { x.lastID = id - 1 }

package content

// Held returns the size of the buffer with the current frame, in bytes.
func (s *Section) Held() int {
	if s.buffer == nil {
		return 0
	}
	return len(s.buffer.B)
}

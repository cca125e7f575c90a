package result

// Benchmark is one line of `go test -bench`.
type Benchmark struct {
	Package string             `json:"package"`
	Name    string             `json:"name"`  // without the prefix "Benchmark" and the suffix for the number of processors
	CPU     string             `json:"cpu"`   // the processor on which it ran
	Iters   int                `json:"iters"` // number of iterations
	Values  map[string]float64 `json:"values"`
}

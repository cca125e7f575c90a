package result

// Benchmark is one line of `go test -bench`.
type Benchmark struct {
	Package string             `json:"package"`
	Name    string             `json:"name"`  // without "Benchmark", and without the number of processors behind it
	CPU     string             `json:"cpu"`   // on which it ran
	Iters   int                `json:"iters"` // how often
	Values  map[string]float64 `json:"values"`
}

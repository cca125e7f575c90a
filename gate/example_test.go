package gate_test

import (
	"fmt"
	"net/http/httptest"

	"orcas/auth"
	"orcas/gate"
)

func ExampleFind() {
	apis := []gate.API{
		{Name: "health", Path: "/-/health/*"},
		{Name: "console", Hosts: []string{"console.example.org"}},
	}
	for _, url := range []string{
		"http://s3.example.org/-/health/live", "http://console.example.org/login", "http://s3.example.org/bucket/key",
	} {
		if api := gate.Find(apis, httptest.NewRequest("GET", url, nil), false); api != nil {
			fmt.Println(api.Name)
		} else {
			fmt.Println("no match")
		}
	}
	// Output:
	// health
	// console
	// no match
}

func ExampleJoin() {
	rows := []*gate.Route{
		{Name: "GetObject", Method: "GET", Level: gate.Object, Effect: gate.Read,
			Action: "s3:GetObject", VersionAction: "s3:GetObjectVersion"},
		{Name: "PutObject", Method: "PUT", Level: gate.Object, Effect: gate.Write,
			Action: "s3:PutObject", Secondary: []auth.Action{"s3:PutObjectTagging"}},
	}
	handlers := map[string]func() string{"GetObject": func() string { return "the object" }}
	_, err := gate.Join(rows, handlers)
	fmt.Println(err)
	// Output: the route PutObject has no handler
}

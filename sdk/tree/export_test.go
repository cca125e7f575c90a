package tree

// ServerEndpoint returns the URL of the test server, for examples.
func ServerEndpoint() string { return shared }

// ServerKeys returns the keys of the test server, for examples.
func ServerKeys() (accessKey, secretKey string) { return access, secret }

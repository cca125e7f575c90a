// Package datadir names the files of a data directory that commands of the client read. Those commands must not import
// the server, which writes the files.
package datadir

// CredentialsFile is the name of the file with the generated root credentials: a JSON object with the members accessKey
// and secretKey. Only its owner may have access to it.
const CredentialsFile = "root-credentials.json"

// AdminCertificateFile is the name of the file with the self-signed certificate of the admin listener (PEM).
const AdminCertificateFile = "admin-self-signed.crt"

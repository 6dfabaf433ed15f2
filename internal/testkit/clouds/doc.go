// Package clouds stands in for AWS, Azure and Google Cloud, so that the clients of a program under test run as they are: an HTTPS
// proxy takes their connections, shows certificates for their hosts, and answers as they would. Nothing leaves the machine: a host
// that it has no answer for can't be reached.
//
// The services give tokens to whoever shows one of a ServiceAccount that is for them, and what a token leads to asks the same services
// whose it is. Signatures of AWS are checked by a second implementation.
package clouds

package decrypt

// MaxFile is the size of the largest file that should be decrypted, as in Flux.
const MaxFile = 5 << 20

// Source decrypts a file that a generator or a patch names, in its own format, which the name tells; an env file of an unknown name
// is a dotenv one. It returns nil for a file that is not encrypted.
func (d *Decrypter) Source(name string, env bool, data []byte) ([]byte, error) {
	f := formatOf(name)
	if env && f == formatBinary {
		f = formatDotenv
	}
	if !f.marker.Match(data) {
		return nil, nil
	}
	return d.open(data, f, f)
}

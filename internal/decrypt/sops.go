package decrypt

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/getsops/sops/v3"
	"github.com/getsops/sops/v3/aes"
	"github.com/getsops/sops/v3/config"
	"github.com/getsops/sops/v3/keyservice"
	"github.com/getsops/sops/v3/logging"
	"github.com/getsops/sops/v3/stores/dotenv"
	"github.com/getsops/sops/v3/stores/ini"
	"github.com/getsops/sops/v3/stores/json"
	"github.com/getsops/sops/v3/stores/yaml"
	"github.com/sirupsen/logrus"

	"github.com/holdfast-gitops/holdfast/internal/alias"
)

// Decrypter decrypts with one set of keys.
type Decrypter struct {
	ctx  context.Context //nolint:containedctx // the life of one build, which requests to key services end with
	keys *Keys
}

// New returns a Decrypter whose requests to key services end with the context.
func New(ctx context.Context, keys *Keys) *Decrypter {
	quiet.Do(func() { logging.SetLevel(logrus.FatalLevel) })
	return &Decrypter{ctx: ctx, keys: keys}
}

// quiet silences SOPS, which logs comments that were not encrypted.
var quiet sync.Once

// format is how a file is written.
type format struct {
	name string
	// marker matches what an encrypted file of the format has in it.
	marker *regexp.Regexp
	store  func() store
}

// store reads encrypted files and writes plain ones.
type store interface {
	sops.EncryptedFileLoader
	sops.PlainFileEmitter
}

var (
	encryptedJSON = regexp.MustCompile(`"mac":\s*"ENC\[`)

	formatBinary = &format{"binary", encryptedJSON, func() store { return json.NewBinaryStore(&config.NewStoresConfig().JSONBinary) }}
	formatDotenv = &format{"dotenv", regexp.MustCompile(`sops_mac=ENC\[`), func() store { return dotenv.NewStore(&config.NewStoresConfig().Dotenv) }}
	formatINI    = &format{"INI", regexp.MustCompile(`\[sops\]`), func() store { return ini.NewStore(&config.NewStoresConfig().INI) }}
	formatJSON   = &format{"JSON", encryptedJSON, func() store { return json.NewStore(&config.NewStoresConfig().JSON) }}
	formatYAML   = &format{"YAML", regexp.MustCompile(`mac: ENC\[`), func() store { return yaml.NewStore(&config.NewStoresConfig().YAML) }}
)

// detectable are the formats by which an encrypted value is told; the envelope of the binary one is JSON.
var detectable = []*format{formatDotenv, formatINI, formatJSON, formatYAML}

// formatOf tells a format by the end of a name.
func formatOf(name string) *format {
	for suffix, f := range map[string]*format{".yaml": formatYAML, ".yml": formatYAML, ".json": formatJSON, ".env": formatDotenv, ".ini": formatINI,
		".dockerconfigjson": formatJSON} {
		if strings.HasSuffix(name, suffix) {
			return f
		}
	}
	return formatBinary
}

// open decrypts a file of one format and writes it in another. A panic of a library is an error: malformed input causes some.
func (d *Decrypter) open(data []byte, in, out *format) (plain []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			plain, err = nil, fmt.Errorf("failed to emit encrypted %s file as decrypted %s", in.name, out.name)
		}
	}()
	if _, err := alias.Check(data); err != nil {
		return nil, fmt.Errorf("failed to load encrypted %s data: %w", in.name, err)
	}
	tree, err := in.store().LoadEncryptedFile(data)
	if err != nil {
		return nil, fmt.Errorf("failed to load encrypted %s data: it is malformed, or lacks the metadata of SOPS", in.name)
	}
	service := &service{ctx: d.ctx, keys: d.keys}
	services := []keyservice.KeyServiceClient{keyservice.NewCustomLocalClient(service)}
	dataKey, err := tree.Metadata.GetDataKeyWithKeyServices(services, sops.DefaultDecryptionOrder)
	if err != nil {
		return nil, fmt.Errorf("cannot get sops data key: Failed to get the data key required to decrypt the SOPS file: %s", service.problem())
	}
	if _, err := tree.Decrypt(dataKey, aes.NewCipher()); err != nil {
		return nil, fmt.Errorf("error decrypting sops tree: %w", redacted(err))
	}
	plain, err = out.store().EmitPlainFile(tree.Branches)
	if err != nil {
		return nil, fmt.Errorf("failed to emit encrypted %s file as decrypted %s: it has no such form", in.name, out.name)
	}
	return plain, nil
}

// redacted says why a value could not be decrypted without saying what it is.
func redacted(err error) error {
	if strings.Contains(err.Error(), "does not match sops' data format") {
		return errors.New("Input string <redacted> does not match sops' data format: a value that has to be encrypted is not") //nolint:staticcheck // Flux's text
	}
	return errors.New("a value can't be opened with the data key: it was changed after it was encrypted, or is of another file or place")
}

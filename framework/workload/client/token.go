package client

import (
	"encoding/json"
	"fmt"

	"k8s.io/client-go/rest"
)

// TokenRequest is the body of a request to an account's token, of a token for an hour.
func TokenRequest() []byte {
	return []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`)
}

// IssuedToken returns the token in the answer to a TokenRequest.
func IssuedToken(answer []byte) (string, error) {
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &issued); err != nil || issued.Status.Token == "" {
		return "", fmt.Errorf("the API server answered without a token: %s", Shorten(string(answer)))
	}
	return issued.Status.Token, nil
}

// WithToken returns the configuration of a client that has only a token.
func WithToken(config *rest.Config, token string) *rest.Config {
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	return config
}

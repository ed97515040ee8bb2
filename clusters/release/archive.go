package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// connectTimeout is short because there is another source to try.
	connectTimeout = 3 * time.Second
	// answerTimeout is how long a server may take to answer a request.
	answerTimeout = 15 * time.Second
	// stallTimeout is how long a download may stall.
	stallTimeout = 30 * time.Second
)

// archive downloads a product from the release archive of the mirror.
func (f *fetch) archive(ctx context.Context, dir string) (Entry, error) {
	name, folder, _ := f.product.archive()
	url := fmt.Sprintf("%s/%s/%s-linux-%s.tar.gz", f.Mirror, f.version, name, f.arch)
	f.Progress.Say("trying the release archive %s", url)
	client := newHTTPClient()
	defer client.CloseIdleConnections()

	want, err := announcedSum(ctx, client, url+".sha512")
	if err != nil {
		return Entry{}, err
	}
	downloads := filepath.Join(string(f.cache), "downloads")
	if err := os.MkdirAll(downloads, 0o755); err != nil {
		return Entry{}, err
	}
	// Named by its target, so that a partial file is never continued with another one's
	// content.
	file := filepath.Join(downloads, want[:32]+".partial")
	if err := f.download(ctx, client, url, file); err != nil {
		return Entry{}, err
	}
	f.Progress.Status("verifying SHA-512")
	if err := checkSum(file, want); err != nil {
		os.Remove(file)
		return Entry{}, fmt.Errorf("%s: %w", url, err)
	}
	f.Progress.Status("unpacking")
	if err := unpack(file, folder, f.product.Files(), dir); err != nil {
		return Entry{}, fmt.Errorf("failed to unpack %s: %w", url, err)
	}
	os.Remove(file)
	return Entry{Origin: url}, nil
}

func newHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				// The dialer's own limit does not always apply to name resolution.
				ctx, cancel := context.WithTimeout(ctx, connectTimeout)
				defer cancel()
				return dialer.DialContext(ctx, network, address)
			},
			TLSHandshakeTimeout:   connectTimeout,
			ResponseHeaderTimeout: answerTimeout,
			ForceAttemptHTTP2:     true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= 10 {
				return errors.New("too many redirects")
			}
			// The checksum is only as trustworthy as its transport.
			if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
				return fmt.Errorf("refusing a redirect from https to %s", r.URL.Redacted())
			}
			return nil
		},
	}
}

func get(ctx context.Context, client *http.Client, url string, offset int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("failed to make a request to the mirror: %w", err)
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode == http.StatusOK,
		resp.StatusCode == http.StatusPartialContent && offset > 0,
		resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && offset > 0:
		return resp, nil
	}
	resp.Body.Close()
	return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
}

var sha512Pattern = regexp.MustCompile(`^[0-9a-f]{128}$`)

// announcedSum returns the checksum in a file that contains it alone or in the format of
// sha512sum.
func announcedSum(ctx context.Context, client *http.Client, url string) (string, error) {
	resp, err := get(ctx, client, url, 0)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return "", fmt.Errorf("GET %s: %w", url, err)
	}
	fields := strings.Fields(strings.ToLower(string(data)))
	if len(fields) == 0 || !sha512Pattern.MatchString(fields[0]) {
		return "", fmt.Errorf("GET %s: the response is not a SHA-512", url)
	}
	return fields[0], nil
}

// download downloads url into file and continues where an earlier attempt stopped.
func (f *fetch) download(ctx context.Context, client *http.Client, url, file string) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	have, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := get(ctx, client, url, have)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusRequestedRangeNotSatisfiable:
		return nil // the file is complete; the checksum will verify it
	case http.StatusOK: // from the start, requested or not
		if err := out.Truncate(0); err != nil {
			return err
		}
		if _, err := out.Seek(0, io.SeekStart); err != nil {
			return err
		}
		have = 0
	default:
		f.Progress.Say("continuing the download at %s", Size(have))
	}
	total := int64(-1)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	watchdog := time.AfterFunc(stallTimeout, func() {
		cancel(fmt.Errorf("no data arrived for %s", stallTimeout))
	})
	defer watchdog.Stop()
	body := readerFunc(func(p []byte) (int, error) {
		n, err := resp.Body.Read(p)
		watchdog.Reset(stallTimeout)
		have += int64(n)
		if total > 0 {
			f.Progress.Status("downloading: %s of %s", Size(have), Size(total))
		} else {
			f.Progress.Status("downloading: %s", Size(have))
		}
		return n, err
	})
	if _, err := io.Copy(out, body); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("failed to download %s: %w (the partial download is kept; the next fetch continues from it)", url, err)
	}
	return out.Close()
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) { return r(p) }

func checkSum(file, want string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%w: SHA-512 is %s, expected %s; if this persists, the mirror is broken or tampered with",
			errChecksum, got, want)
	}
	return nil
}

// unpack writes the named files of a folder of the archive to dir.
func unpack(archive, folder string, names []string, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	missing := slices.Clone(names)
	for tr := tar.NewReader(zr); len(missing) > 0; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s is not in it", strings.Join(missing, ", "))
		} else if err != nil {
			return err
		}
		name := path.Base(h.Name)
		i := slices.Index(missing, name)
		if i < 0 || path.Dir(path.Clean(h.Name)) != folder || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(filepath.Join(dir, name), tr); err != nil {
			return err
		}
		missing = slices.Delete(missing, i, i+1)
	}
	return nil
}

func writeFile(path string, r io.Reader) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, r); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

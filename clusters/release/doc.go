// Package release downloads or builds the binaries of a control plane and of its
// nodes, and caches them: the Kubernetes components, etcd, kwok, and what a kind
// node needs besides, at any version.
//
// Fetch returns the cache's entry of a product, whose Dir holds the binaries, and
// fetches them first if they are not cached. Kubernetes comes from the first
// source that serves:
//
//   - the project's release archives, or a mirror of them, with their SHA-512
//     verified;
//   - a build from the Go module proxy with the local Go toolchain, out of a
//     generated module that requires k8s.io/kubernetes at that version.
//
// All else is always built. A build keeps what it has compiled in Go's build
// cache, so one that was interrupted continues where it stopped; an interrupted
// download does too.
//
// # The cache
//
//	entries/DIGEST/          the binaries and manifest.json, named by the
//	                         SHA-256 of what is in it
//	refs/PRODUCT/VERSION/ARCH  symbolic link to the entry
//	downloads/, locks/, tmp/ work in progress
//
// An entry appears by one rename and never changes. Each use compares size and
// modification time of its files with the manifest, and their SHA-256 where
// those differ; an entry that does not match is fetched again.
//
// The tests need the Go toolchain but no network: archives come from a server
// in the test, modules from a file tree that it makes.
//
//	go test ./clusters/release
package release

// Package tamper breaks guarantees on purpose. Two proxies, one between API
// server and etcd member, one in front of an API server, pass everything on as
// it is until they are given rules; then they lose, repeat, reorder, age or
// alter the messages that the rules name, and count how often they did.
//
// With them a healthy control plane becomes one that lies, which a judge must
// find out. Without rules the same cluster is the healthy twin.
//
// The proxies are a program of their own (Main) that runs beside the components
// of a control-plane node. A Client gives it rules through a unix socket.
package tamper

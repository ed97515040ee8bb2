package agent

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"time"
)

// DialCommand starts a command and returns a connection to it: its standard input and
// output. Closing the connection kills the command.
func DialCommand(cmd *exec.Cmd) (net.Conn, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &streams{cmd: cmd, in: in.(*os.File), out: out.(*os.File)}, nil // files have deadlines
}

// streams is a connection to a program.
type streams struct {
	cmd *exec.Cmd
	in  *os.File // the program's input
	out *os.File // the program's output
}

func (s *streams) Read(b []byte) (int, error)  { return s.out.Read(b) }
func (s *streams) Write(b []byte) (int, error) { return s.in.Write(b) }

// Close kills the program.
func (s *streams) Close() error {
	_ = s.in.Close()
	err := s.out.Close()
	_ = s.cmd.Process.Kill()
	go func() { _ = s.cmd.Wait() }()
	return err
}

func (s *streams) SetDeadline(t time.Time) error {
	return errors.Join(s.in.SetWriteDeadline(t), s.out.SetReadDeadline(t))
}

func (s *streams) SetReadDeadline(t time.Time) error  { return s.out.SetReadDeadline(t) }
func (s *streams) SetWriteDeadline(t time.Time) error { return s.in.SetWriteDeadline(t) }
func (s *streams) LocalAddr() net.Addr                { return streamAddr{} }
func (s *streams) RemoteAddr() net.Addr               { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "exec" }
func (streamAddr) String() string  { return "exec" }

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
)

// listen opens the API server's port. The listener itself is handed on, so nobody else can take a port that was chosen;
// the choice is written down, so clients of a folder find its server again after a restart.
func listen(p paths, port int) (net.Listener, int, error) {
	remembered := p.join("port")
	if port == 0 {
		text, err := os.ReadFile(remembered)
		switch {
		case err == nil:
			if port, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
				return nil, 0, fmt.Errorf("%s holds no port: %w", remembered, err)
			}
		case !errors.Is(err, fs.ErrNotExist):
			return nil, 0, err
		}
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, 0, fmt.Errorf("the API server's port: %w", err)
	}
	port = listener.Addr().(*net.TCPAddr).Port
	if err := os.WriteFile(remembered, []byte(strconv.Itoa(port)+"\n"), 0o600); err != nil {
		_ = listener.Close()
		return nil, 0, err
	}
	return listener, port, nil
}

"""Who listens at a UNIX socket: what is waited for before a server is spoken to."""

from __future__ import annotations

import socket
from pathlib import Path

from virtoll.lab.inside import connect_unix, is_listened


def test_a_server_is_there_from_its_listen_on_not_from_its_bind(tmp_path: Path) -> None:
    path = tmp_path / "server"
    assert not is_listened(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert path.exists()
        assert not is_listened(path)
        assert connect_unix(path) is None
        server.listen()
        assert is_listened(path)
        ours = connect_unix(path)
        assert ours is not None
        with ours:
            server.accept()[0].close()  # of the question before
            theirs, _ = server.accept()
            with theirs:
                ours.sendall(b"x")
                assert theirs.recv(1) == b"x"


def test_who_has_ended_listens_no_more(tmp_path: Path) -> None:
    path = tmp_path / "server"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
    assert path.exists()
    assert not is_listened(path)

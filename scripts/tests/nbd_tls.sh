#!/usr/bin/env bash
# NBD over TCP with TLS: clients that others wrote come in with a certificate, and nobody without;
# nor from a network that is not allowed. Then a configuration is changed while it is served.
set -euo pipefail
limit=${STEADYRAID_LIMIT:-300}
"$(dirname "${BASH_SOURCE[0]}")/../setup.sh" openssl:openssl nbdinfo:libnbd-bin \
    nbdcopy:libnbd-bin qemu-img:qemu-utils python3:python3
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh" "$@"

volume_mib=64
config=$work/steadyraid.toml

# --- Certificates ------------------------------------------------------------------------------

new_key() { # FILE
    openssl ecparam -name prime256v1 -genkey -noout -out "$1"
    chmod 600 "$1"
}

make_authority() { # NAME
    mkdir -p "$work/$1"
    new_key "$work/$1/ca-key.pem"
    openssl req -x509 -new -key "$work/$1/ca-key.pem" -days 2 -subj "/CN=$1" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign \
        -out "$work/$1/ca-cert.pem"
}

sign() { # AUTHORITY NAME USAGE
    local to=$work/$1/$2
    new_key "$to-key.pem"
    openssl req -new -key "$to-key.pem" -subj "/CN=$2.$1" -out "$to.csr"
    openssl x509 -req -in "$to.csr" -days 2 -CA "$work/$1/ca-cert.pem" \
        -CAkey "$work/$1/ca-key.pem" -CAcreateserial -out "$to-cert.pem" 2>/dev/null -extfile \
        <(printf 'subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\nextendedKeyUsage=%s\n' "$3")
}

# --- Server and clients ------------------------------------------------------------------------

configure() { # AUTHORITY NETWORK ADDRESS
    cat >"$config" <<END
drives = ['$drives']
nbd = ['$3', 'unix:$socket']
control = '$control'
tls-cert = '$work/$1/server-cert.pem'
tls-key = '$work/$1/server-key.pem'
tls-client-ca = '$work/$1/ca-cert.pem'
allow = ['$2']
END
}

serve_command() {
    printf '%s\n' "$steadyraid" serve --config "$config"
}

tcp_port() {
    sed -n 's/^nbd tcp:.*:\([0-9]*\)$/\1/p' "$work/server.out"
}

tls_uri() { # AUTHORITY-OF-CLIENT
    echo "nbds://127.0.0.1:$port/$export_name?tls-certificates=$work/$1"
}

credentials() { # AUTHORITY
    echo "tls-creds-x509,id=tls0,endpoint=client,dir=$work/$1"
}

nbd_image() {
    echo "driver=nbd,host=127.0.0.1,port=$port,export=$export_name,tls-creds=tls0"
}

refused() { # WHAT COMMAND...
    local what=$1
    shift
    if timeout 30 "$@" >"$work/refused.txt" 2>&1; then
        fail "$what was let in"
    fi
    ! grep -q 'export-size' "$work/refused.txt" || fail "$what was told of the volume"
}

logged() { # PATTERN
    wait_until 10 grep -q "$1" "$work/server.log" || fail "no '$1' in the server's log"
}

# --- Checks ------------------------------------------------------------------------------------

check_clients() {
    step "nbdinfo, nbdcopy and qemu-img with a certificate: in, out, compare"
    nbdinfo --json "$(tls_uri ours)" >"$work/info.json"
    jq -e --argjson size $((volume_mib << 20)) \
        '.TLS == true and .exports[0]."export-size" == $size' "$work/info.json" >/dev/null ||
        fail "unexpected: $(jq -c . "$work/info.json")"
    dd if=/dev/urandom of="$work/image.raw" bs=1M count=$volume_mib status=none
    nbdcopy --flush "$work/image.raw" "$(tls_uri ours)"
    nbdcopy "$(tls_uri ours)" "$work/back.raw"
    cmp "$work/image.raw" "$work/back.raw"
    qemu-img convert --object "$(credentials ours)" --image-opts "$(nbd_image)" -O raw "$work/back2.raw"
    cmp "$work/image.raw" "$work/back2.raw"
    qemu-io --object "$(credentials ours)" --image-opts "$(nbd_image)" -c 'write -P 7 5M 1M' -c 'read -P 7 5M 1M' \
        -c 'discard 20M 4M' -c flush >"$work/qemu-io.txt"
    ! grep -i fail "$work/qemu-io.txt" || fail "qemu-io: see above"
    # The same volume without TLS, by the socket that only its owner can open.
    nbdcopy "$uri" "$work/back3.raw"
    ! cmp -s "$work/image.raw" "$work/back3.raw" || fail "what qemu-io wrote is not there"
    echo ok
}

check_strangers() {
    step "refused: clear text, no certificate, another authority's, another server name"
    refused "a client in clear text" nbdinfo "nbd://127.0.0.1:$port/$export_name"
    refused "qemu in clear text" qemu-img info "nbd://127.0.0.1:$port/$export_name"
    mkdir -p "$work/bare"
    cp "$work/ours/ca-cert.pem" "$work/bare/"
    refused "a client without certificate" nbdinfo "$(tls_uri bare)"
    logged 'TLS: peer sent no certificates'
    # It trusts us, and shows what another authority signed.
    mkdir -p "$work/forged"
    cp "$work/ours/ca-cert.pem" "$work/forged/"
    cp "$work/theirs/"client-*.pem "$work/forged/"
    refused "a client of another authority" nbdinfo "$(tls_uri forged)"
    # Clients are protected as well: this one trusts another authority.
    refused "a server of another authority" nbdinfo "$(tls_uri theirs)"
    nbdinfo --size "$(tls_uri ours)" >/dev/null || fail "a good client after the bad ones"
    echo ok
}

# Bytes no library would send. Each connection must be closed, and the server go on.
check_hostile() {
    step "hostile bytes: options before TLS, commands smuggled behind it, garbage, silence"
    timeout 60 python3 - "$port" "$work" <<'END'
import socket, ssl, struct, sys

port, work = int(sys.argv[1]), sys.argv[2]
option = lambda code, data=b"": b"IHAVEOPT" + struct.pack(">II", code, len(data)) + data
STARTTLS, LIST, NAME, GO = 5, 3, 1, 7

def talk(*messages):
    s = socket.create_connection(("127.0.0.1", port), timeout=20)
    assert s.recv(18, socket.MSG_WAITALL)[:16] == b"NBDMAGICIHAVEOPT"
    s.sendall(struct.pack(">I", 3) + messages[0])
    for message in messages[1:]:
        assert reply(s) == 1, "STARTTLS is acknowledged"
        s.sendall(message)
    return s

def reply(s):
    head = s.recv(20, socket.MSG_WAITALL)
    kind, size = struct.unpack(">II", head[12:])
    s.recv(size, socket.MSG_WAITALL)
    return kind

def closed(s):
    data = b""
    try:
        while part := s.recv(4096):
            data += part
    except ConnectionResetError:
        pass
    return data

for code in (LIST, GO, 6, 8, 9, 10, 11, 12345):
    assert reply(talk(option(code))) == 0x80000005, f"option {code}"
assert reply(talk(option(STARTTLS, b"x"))) == 0x80000003
assert closed(talk(option(NAME, b"tank/vm1"))) == b""
# Only the acknowledgement may come: what was sent in clear is not carried out.
data = closed(talk(option(STARTTLS) + option(LIST)))
assert len(data) == 20 and b"tank" not in data, data
for garbage in (bytes(64), b"\xff" * 70000, b"\x16\x03\x01\xff\xff" + b"a" * 100000,
                b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\x15\x03\x03\x00\x02\x02\x28"):
    try:
        closed(talk(option(STARTTLS), garbage))
    except (ConnectionResetError, BrokenPipeError):
        pass
# Libraries keep a certificate back that the server would not take; this client shows it.
def listed(certificate):
    context = ssl.create_default_context(cafile=f"{work}/ours/ca-cert.pem")
    context.load_cert_chain(f"{certificate}/client-cert.pem", f"{certificate}/client-key.pem")
    s = talk(option(STARTTLS))
    assert reply(s) == 1
    s = context.wrap_socket(s, server_hostname="127.0.0.1")
    try:
        s.sendall(option(LIST))
        return s.recv(100)
    except (ssl.SSLError, ConnectionError) as error:
        return error

assert listed(f"{work}/ours")[:8] == struct.pack(">Q", 0x3e889045565a9), listed(f"{work}/ours")
assert "UNKNOWN_CA" in str(listed(f"{work}/theirs")), listed(f"{work}/theirs")
# A client that says nothing more is put out after the time that choosing an export may take.
assert closed(talk(option(STARTTLS), b"\x16\x03\x01")) == b""
END
    logged 'TLS: invalid peer certificate: UnknownIssuer'
    logged 'sent something in clear text behind its request for TLS'
    nbdinfo --size "$(tls_uri ours)" >/dev/null || fail "a good client after the bad ones"
    echo ok
}

slowly() { # FILE
    head -c 1M "$1"
    wait_until 60 test -e "$work/go"
    tail -c +$(((1 << 20) + 1)) "$1"
}

has_begun() { # FILE
    nbdcopy "$uri" "$work/seen.raw"
    cmp -s -n 4096 "$1" "$work/seen.raw"
}

is_reloaded() {
    [ "$(grep -c '^reloaded: ' "$work/server.out")" = "$1" ]
}

check_reload() {
    step "SIGHUP: certificates of another authority, while a client of the first is at work"
    dd if=/dev/urandom of="$work/image2.raw" bs=1M count=$volume_mib status=none
    local pid
    slowly "$work/image2.raw" | nbdcopy --flush - "$(tls_uri ours)" &
    pid=$!
    wait_until 20 has_begun "$work/image2.raw" || fail "nothing was written"
    configure theirs 127.0.0.0/8 tcp:0.0.0.0:0
    kill -HUP "$server"
    wait_until 20 is_reloaded 1 || fail "the server did not read its file again"
    touch "$work/go"
    wait "$pid" || fail "a client that was there before the reload"
    nbdcopy "$(tls_uri theirs)" "$work/back4.raw"
    cmp "$work/image2.raw" "$work/back4.raw"
    refused "a client of the authority before" nbdinfo "$(tls_uri ours)"
    # In place of its key the certificate: nothing changes.
    cp "$work/theirs/server-cert.pem" "$work/theirs/server-key.pem"
    kill -HUP "$server"
    logged 'server-key.pem: has no private key'
    nbdinfo --size "$(tls_uri theirs)" >/dev/null || fail "a bad key was taken over"
    ! is_reloaded 2 || fail "a reload that failed is said to have been one"
    sign theirs server serverAuth
    kill -HUP "$server"
    wait_until 20 is_reloaded 2 || fail "the server did not read its file again"
    nbdinfo --size "$(tls_uri theirs)" >/dev/null || fail "the renewed certificate"
    echo ok
}

make_pool 5 160M "${volume_mib}M"
for authority in ours theirs; do
    make_authority "$authority"
    sign "$authority" server serverAuth
    sign "$authority" client clientAuth
done

configure ours 127.0.0.0/8 tcp:0.0.0.0:0
start_server
port=$(tcp_port)
check_clients
check_strangers
check_hostile
check_reload
stop_server

step "refused: a client whose address is in no network allowed"
configure ours 10.0.0.0/8 tcp:0.0.0.0:0
start_server
port=$(tcp_port)
refused "a client from elsewhere" nbdinfo "$(tls_uri ours)"
logged 'refused: in none of the networks allowed'
stop_server
echo ok

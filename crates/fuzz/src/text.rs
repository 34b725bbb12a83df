//! What people and their programs write: calls of the API, configuration files.

use app::hostile;

/// `METHOD TARGET`, a line feed, the body; or `guard METHOD`, the host, the authorization.
pub fn api(bytes: &[u8]) -> bool {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return false };
    let Ok(head) = str::from_utf8(&bytes[..end]) else { return false };
    let (first, second) = head.split_once(' ').unwrap_or((head, ""));
    let body = &bytes[end + 1..];
    if first != "guard" {
        return hostile::api(first, second, body);
    }
    let cut = body.iter().position(|byte| *byte == b'\n').unwrap_or(body.len());
    let (host, authorization) = body.split_at(cut);
    hostile::guard(second, host, authorization.strip_prefix(b"\n").unwrap_or_default())
}

pub fn api_seeds() -> Vec<Vec<u8>> {
    let calls = [
        "GET /api/v1/pools\n",
        "HEAD /api/v1/pools/tank%20%26%2F7\n",
        "GET /api/v1/pools/tank/stripe?number=7\n",
        "GET /api/v1/events?pool=tank&after=%7B%22tank%22%3A7%7D&wait_millis=20000\n",
        "GET /api/v1/openapi.json\n",
        "GET /metrics\n",
        "POST /api/v1/pools/tank/volumes\n{\"volume\":\"vm1\",\"size\":1073741824,\"parity\":2}",
        "PUT /api/v1/pools/tank/volumes/vm1/size\n{\"size\":1}",
        "PUT /api/v1/pools/tank/volumes/vm1/limits\n{\"iops\":7,\"bytes_per_sec\":9}",
        "DELETE /api/v1/pools/tank/volumes/vm1\n",
        "POST /api/v1/pools/tank/drives\n{\"new\":[\"/dev/x\",\"/dev/y\"],\"force\":true}",
        "PUT /api/v1/pools/tank/drives/0/decision\n{\"decision\":\"sit-out\"}",
        "POST /api/v1/pools/tank/drives/0/fail\n{\"force\":true,\"offline\":false}",
        "POST /api/v1/pools/tank/drives/0/replace\n{\"path\":\"/dev/x\",\"back\":true}",
        "POST /api/v1/pools/tank/drives/0/remove\n{\"stop\":true}",
        "PUT /api/v1/pools/tank/rebuild\n{\"pause\":true}",
        "PUT /api/v1/pools/tank/scrub\n{\"action\":\"start\"}",
        "PUT /api/v1/pools/tank/rebalance\n{}",
        "POST /api/v1/pools/tank/drives/0/faults\n{\"fault\":{\"effect\":{\"delay\":{\"pareto\":\
         {\"least_micros\":10,\"alpha_percent\":120,\"most_micros\":5000}}},\"times\":{\"nth\":1},\
         \"operation\":\"read\",\"range\":[4096,8192],\"per_million\":1000}}",
        "GET /api/v1/pools/tank/drives/0/faults\n",
        "POST /api/v1/pools/tank/drives/0/faults/release\n{\"fault\":1}",
        "guard GET\nlocalhost:9464\n",
        "guard PUT\n[::1]:1\nBearer 0123456789abcdef",
        "guard DELETE\n127.0.0.1\nBearer 0123456789abcdef",
        "guard DELETE\n127.0.0.4\nBEarer 0123456789abcdef",
    ];
    calls.iter().map(|call| call.as_bytes().to_vec()).collect()
}

pub fn config(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_ok_and(hostile::config)
}

pub fn config_seeds() -> Vec<Vec<u8>> {
    let files = [
        "drives = ['/dev/a', '/srv/pool']\nnbd = ['tcp:127.0.0.1:10809', 'unix:/run/n.sock']\n",
        "control = '/run/c.sock'\nhttp = '[::1]:9464'\ntoken-file = '/etc/token'\n",
        "mem-pools = ['demo:4:64M', 'gc:4:model:consumer-sata,size=16G,fill=aged,seed=3:v=20G']\n",
        "mem-pools = ['two:4:model:dc-nvme,size=5G:1:model:consumer-sata,size=5G:v=2G']\n",
        "drives = ['model:dc-nvme,size=8G,fill=fresh,file=/srv/d0']\n",
        "spikes = 'watch'\nstraggler-threshold = '2ms'\nstragglers-enter = 5\n",
        "stragglers-leave = 2\nspike-slots = 20\nwrite-hole = 'open'\nrebuild-after = 'never'\n",
        "rebuild-after = '10m'\nsyslog = true\n[[alert]]\nprogram = ['/bin/page', '-x']\n",
        "[[alert]]\nwebhook = 'http://127.0.0.1:1/a?b'\nseverity = 'info'\n",
    ];
    files.iter().map(|file| file.as_bytes().to_vec()).collect()
}

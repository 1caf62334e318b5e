"""A store as far away as one likes, on the loopback: nginx serves a folder of buckets by what readers use of S3 (GET,
HEAD, ranges, If-Match, ListObjectsV2; signatures are not compared), over HTTP and TLS, and waits before each answer.
Waiting costs it nothing, and it runs on a core of its own.

In a bucket, a file `.keys` with a line "KEY SIZE ETAG" for each object makes it listable. In the bucket `many` all keys
are the file `object`. nginx and its Lua are Debian's, unpacked below a folder and not installed.
"""

import contextlib
import os
import socket
import subprocess
import time
import urllib.request

PACKAGES = ("nginx", "libnginx-mod-http-ndk", "libnginx-mod-http-lua", "lua-resty-core", "lua-resty-lrucache",
            "libluajit2-5.1-2")

CONFIGURATION = """
load_module {nginx}/usr/lib/nginx/modules/ndk_http_module.so;
load_module {nginx}/usr/lib/nginx/modules/ngx_http_lua_module.so;
daemon off; worker_processes 1; pid {run}/pid; error_log stderr warn; {user} events {{ worker_connections 8192; }}
http {{
  access_log off; sendfile on; tcp_nopush on; output_buffers 1 512k; keepalive_requests 1000000; types {{ }}
  client_body_temp_path {run}/1; proxy_temp_path {run}/2; fastcgi_temp_path {run}/3; uwsgi_temp_path {run}/4;
  scgi_temp_path {run}/5; open_file_cache max=20000;
  lua_package_path "{nginx}/usr/share/lua/5.1/?.lua;;";
  init_by_lua_file {run}/store.lua;
  server {{
    listen 127.0.0.1:{http} backlog=4096; listen 127.0.0.1:{https} ssl backlog=4096; root {folder};
    ssl_certificate {run}/cert.pem; ssl_certificate_key {run}/key.pem;
    location = /.far {{ content_by_lua_block {{ far_set() }} }}
    rewrite_by_lua_block {{ far_rewrite() }}
    location /many/ {{ access_by_lua_block {{ far_wait() }} try_files /many/object =404; }}
    location / {{ access_by_lua_block {{ far_wait() }} }}
  }}
}}
"""

LUA = r"""
-- What a request waits for: `ms`, ten times that for a share `slow` of them, and its turn at `rate` bytes a second.
local far, asked, free_at, lists = {ms = 0, slow = 0, rate = 0, bytes = 110000}, 0, 0, {}

function far_set()
  for key, value in pairs(ngx.req.get_uri_args()) do far[key] = tonumber(value) end
  ngx.print(asked)
end

function far_wait()
  asked = asked + 1
  local pause = far.ms / 1000 * (math.random() < far.slow and 10 or 1)
  if far.rate > 0 then
    local first, last = (ngx.var.http_range or ""):match("bytes=(%d+)-(%d+)")
    ngx.update_time()
    free_at = math.max(free_at, ngx.now()) + (first and last - first + 1 or far.bytes) / far.rate
    pause = pause + free_at - ngx.now()
  end
  if pause > 0 then ngx.sleep(pause) end
end

-- The keys of a bucket, in order: a text, and where each of its lines begins; no table that a collector would go over.
local function keys_of(bucket)
  if not lists[bucket] then
    local file = assert(io.open(ROOT .. "/" .. bucket .. "/.keys"))
    local text = file:read("*a")
    file:close()
    local _, count = text:gsub("\n", "\n")
    local begins, at = require("ffi").new("int32_t[?]", count + 1), 1
    for line = 1, count do
      begins[line], at = at, text:find("\n", at, true) + 1
    end
    lists[bucket] = {text, begins, count}
  end
  return unpack(lists[bucket])
end

local function list(bucket, query)
  local text, begins, count = keys_of(bucket)
  local function key_at(line)
    return line >= 1 and line <= count and text:match("^%S+", begins[line]) or nil
  end
  local function first_after(key)
    local low, high = 1, count + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if key_at(middle) > key then high = middle else low = middle + 1 end
    end
    return low
  end
  local function entry(line)
    local key, size, etag = text:match("^(%S+) (%S+) (%S+)", begins[line])
    return "<Contents><Key>" .. key .. "</Key><Size>" .. size .. "</Size><ETag>&quot;" .. etag .. "&quot;</ETag>" ..
      "<LastModified>2026-01-01T00:00:00.000Z</LastModified><StorageClass>STANDARD</StorageClass></Contents>"
  end
  local prefix, most = query.prefix or "", math.min(tonumber(query["max-keys"]) or 1000, 1000)
  local token = query["continuation-token"] or query["start-after"]
  local at = math.max(first_after(token or ""), first_after(prefix))
  if not token and key_at(at - 1) == prefix then at = at - 1 end
  local page, last, key = {}, nil, key_at(at)
  local function is_below() return key and key:sub(1, #prefix) == prefix end
  while #page < most and is_below() do
    local slash = query.delimiter == "/" and key:find("/", #prefix + 1, true)
    if slash then
      page[#page + 1] = "<CommonPrefixes><Prefix>" .. key:sub(1, slash) .. "</Prefix></CommonPrefixes>"
      last = key:sub(1, slash) .. "\255"
      at = first_after(last)
    else
      page[#page + 1], last, at = entry(at), key, at + 1
    end
    key = key_at(at)
  end
  local more = is_below()
  ngx.header["Content-Type"] = "application/xml"
  ngx.print('<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>', bucket,
    "</Name><Prefix>", prefix, "</Prefix><MaxKeys>", most, "</MaxKeys><KeyCount>", #page, "</KeyCount><IsTruncated>",
    tostring(more and true or false), "</IsTruncated>", more and "<NextContinuationToken>" .. ngx.escape_uri(last) ..
    "</NextContinuationToken>" or "", query["encoding-type"] and "<EncodingType>url</EncodingType>" or "",
    table.concat(page), "</ListBucketResult>")
  ngx.exit(200)
end

function far_rewrite()
  local query = ngx.req.get_uri_args()
  if query["list-type"] then
    far_wait()
    if query["continuation-token"] then query["continuation-token"] = ngx.unescape_uri(query["continuation-token"]) end
    list(ngx.var.uri:match("^/([^/]+)"), query)
  end
end
"""


def unpacked(folder):
    """Debian's nginx with Lua, below this folder. Throws CalledProcessError where apt cannot be had."""
    binary = os.path.join(folder, "usr", "sbin", "nginx")
    if not os.path.exists(binary):
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["apt-get", "-qq", "download", *PACKAGES], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        for package in sorted(name for name in os.listdir(folder) if name.endswith(".deb")):
            subprocess.run(["dpkg", "-x", package, "."], cwd=folder, check=True)
    return folder


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_keys(bucket):
    """Makes the files of a bucket listable. An ETag is nginx's: time and size, hexadecimal."""
    lines = []
    for place, _, names in os.walk(bucket):
        for name in names:
            if not name.startswith("."):
                path = os.path.join(place, name)
                about = os.stat(path)
                key, size, time_s = os.path.relpath(path, bucket), about.st_size, int(about.st_mtime)
                lines.append(f"{key} {size} {time_s:x}-{size:x}\n")
    with open(os.path.join(bucket, ".keys"), "w", encoding="utf-8") as file:
        file.writelines(sorted(lines))


class Store:
    def __init__(self, http, https, certificate):
        self.certificate = certificate
        self.url, self.secure_url = f"http://127.0.0.1:{http}", f"https://127.0.0.1:{https}"

    def set(self, **values):
        """`ms`, `slow`, `rate`, `bytes` (of a request without a range). Returns how often it was asked so far."""
        query = "&".join(f"{key}={value}" for key, value in values.items())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/.far?{query}", timeout=30) as answer:
            return int(answer.read())

    def environment(self, secure=False):
        """For programs that read from it as from S3."""
        url = self.secure_url if secure else self.url
        return {**os.environ, "AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_S3": url, "S3_ENDPOINT_URL": url,
                "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_CA_BUNDLE": self.certificate, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


@contextlib.contextmanager
def running(folder, nginx, run, core):
    """The store of a folder, confined to a core."""
    os.makedirs(run, exist_ok=True)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{run}/key.pem", "-out", f"{run}/cert.pem"],
                   check=True, stderr=subprocess.DEVNULL)
    http, https = free_port(), free_port()
    with open(f"{run}/store.lua", "w", encoding="utf-8") as file:
        file.write(f"ROOT = [[{folder}]]\n" + LUA)
    with open(f"{run}/nginx.conf", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(nginx=nginx, run=run, folder=folder, http=http, https=https,
                                        user="user root;" if os.geteuid() == 0 else ""))
    libraries = {**os.environ, "LD_LIBRARY_PATH": f"{nginx}/usr/lib/x86_64-linux-gnu"}
    process = subprocess.Popen(["taskset", "-c", str(core), f"{nginx}/usr/sbin/nginx", "-e", "stderr", "-p", run, "-c",
                                f"{run}/nginx.conf"], env=libraries)
    try:
        store = Store(http, https, f"{run}/cert.pem")
        for attempt in range(100):
            try:
                store.set()
                break
            except OSError:
                if attempt == 99 or process.poll() is not None:
                    raise
                time.sleep(0.1)
        yield store
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

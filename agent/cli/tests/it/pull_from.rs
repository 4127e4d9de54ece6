//! `pull` from servers of other projects, and the hub's own client as the judge of ours.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tetris_test_support::model_site::ModelSite;
use tetris_test_support::models::{bytes, write_model, write_sharded};

use crate::registry::Registry;
use crate::site::{Site, run, skipped};

/// A Python with moto and `huggingface_hub`, which are fetched if they are not there.
fn python() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fetch-sources.sh");
    let fetched = Command::new(script).output().unwrap();
    if fetched.status.success() {
        return Some(String::from_utf8(fetched.stdout).unwrap().trim().into());
    }
    let errors = String::from_utf8_lossy(&fetched.stderr);
    skipped(errors.lines().last().unwrap_or("no message"));
    None
}

/// An S3 server over TLS, with a bucket `models` and an authority known to the client only.
struct S3 {
    server: Child,
    endpoint: String,
    authority: PathBuf,
}

impl S3 {
    /// The server with the files of `content`, by their paths below it.
    fn start(python: &Path, content: &Path, work: &Path) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3_server.py");
        let mut server = Command::new(python)
            .arg(script)
            .args([content, work])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = server.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().expect("the server's port");
        Self {
            server,
            endpoint: format!("https://localhost:{port}"),
            authority: work.join("ca.pem"),
        }
    }

    fn pull(&self, site: &Site, source: &str) -> Command {
        self.with(site, &["pull", source])
    }

    /// The command, with this server and nothing of the tester's.
    fn with(&self, site: &Site, args: &[&str]) -> Command {
        let mut pull = site.command(args);
        pull.args(["--format", "json"]);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("AWS_") {
                pull.env_remove(name);
            }
        }
        pull.env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_REGION", "us-east-1")
            .env("SSL_CERT_FILE", &self.authority)
            .env("HOME", site.dir());
        pull
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn a_bucket_of_another_project_s_server_over_tls() {
    let Some(python) = python() else { return };
    let site = Site::new();
    let content = site.dir().join("content");
    let (base, tuned) = (content.join("base"), content.join("tuned"));
    write_sharded(&base);
    std::fs::create_dir_all(base.join("tokenizer")).unwrap();
    std::fs::write(base.join("tokenizer/vocab.txt"), "a b").unwrap();
    std::fs::create_dir(&tuned).unwrap();
    let model = site.dir().join("m.safetensors");
    write_model(&model, 1, None);
    site.load(&model);
    write_model(&tuned.join("model.safetensors"), 1, Some(7));
    site.json(&["hash".as_ref(), tuned.join("model.safetensors").as_os_str()]);
    let plain = content.join("plain");
    std::fs::create_dir(&plain).unwrap();
    write_model(&plain.join("model.safetensors"), 1, Some(8));
    let s3 = S3::start(&python, &content, site.dir());
    let keys = |pull: &mut Command| {
        pull.env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret-of-a-test");
        run(pull)
    };

    let first = keys(&mut s3.pull(&site, "s3://models/base"))
        .expect(0)
        .json();
    let files = first["sources"][0]["files"].as_array().unwrap();
    assert_eq!(files.len(), 4, "{first}");
    assert_eq!(files[3]["path"], "tokenizer/vocab.txt");
    let loaded = site.load(&base);
    assert_eq!(loaded["models"][0]["bytes_new"], 0);
    let again = keys(&mut s3.pull(&site, "s3://models/base"))
        .expect(0)
        .json();
    assert_eq!(again["sources"][0]["bytes_fetched"], 0);
    assert_eq!(again["sources"][0]["requests"], 1);

    // By the sidecar, only the tensor that differs from the base comes.
    let tuned = keys(&mut s3.pull(&site, "s3://models/tuned/"))
        .expect(0)
        .json();
    let file = &tuned["sources"][0]["files"][0];
    assert_eq!(
        (&file["known_by"], &file["objects_new"]),
        (&"sidecar".into(), &1.into())
    );
    // The same by the name of the object.
    let object = "s3://models/tuned/model.safetensors";
    let object = keys(&mut s3.pull(&site, object)).expect(0).json();
    assert_eq!(object["sources"][0]["bytes_fetched"], 0, "{object}");

    // Sidecars by `push`, which another store with the base takes.
    let pushed = keys(&mut s3.with(&site, &["push", "s3://models/plain"]))
        .expect(0)
        .json();
    assert_eq!(pushed["sources"][0]["sidecars"][0]["new"], true, "{pushed}");
    let other = Site::new();
    other.load(&model);
    let plain = keys(&mut s3.pull(&other, "s3://models/plain"))
        .expect(0)
        .json();
    let file = &plain["sources"][0]["files"][0];
    assert_eq!(
        (&file["known_by"], &file["objects_new"]),
        (&"sidecar".into(), &1.into())
    );

    // Credentials of a profile.
    let profile = site.dir().join(".aws");
    std::fs::create_dir(&profile).unwrap();
    let text = "[team]\naws_access_key_id = key\naws_secret_access_key = secret-of-a-test\n";
    std::fs::write(profile.join("credentials"), text).unwrap();
    run(s3
        .pull(&site, "s3://models/base")
        .env("AWS_PROFILE", "team"))
    .expect(0);

    for (source, words) in [
        ("s3://models/nothing", "check bucket, folder and endpoint"),
        ("s3://no-such-bucket/x", "check bucket, region and endpoint"),
    ] {
        let missing = keys(&mut s3.pull(&site, source)).expect(1);
        assert!(missing.stderr.contains(words), "{missing:?}");
        assert!(!missing.stderr.contains("secret-of-a-test"), "{missing:?}");
    }
    // A server with an unknown authority is refused.
    let mut stranger = s3.pull(&site, "s3://models/base");
    let stranger = keys(stranger.env_remove("SSL_CERT_FILE"));
    let stranger = stranger.expect(1);
    assert!(
        stranger.stderr.to_lowercase().contains("certificate"),
        "{stranger:?}"
    );
}

#[test]
fn digests_and_checksums_of_a_bucket_are_proved() {
    let Some(python) = python() else { return };
    let site = Site::new();
    let content = site.dir().join("content");
    let model = |folder: &str, seed| {
        let folder = content.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        write_model(&folder.join("model.safetensors"), seed, None);
    };
    model("sha256/first", 1);
    model("sha256/copy", 1);
    model("crc32", 2);
    model("damaged", 3);
    let s3 = S3::start(&python, &content, site.dir());
    let pull = |source: &str, variables: &[(&str, &str)]| {
        let mut pull = s3.pull(&site, source);
        run(pull.envs(variables.iter().copied()))
    };
    let signed = [
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let public = [("AWS_SKIP_SIGNATURE", "true")];

    pull("s3://models/sha256/first", &signed).expect(0);
    // The same bytes at another address are known by their digest.
    let copy = pull("s3://models/sha256/copy", &public).expect(0).json();
    let copy = &copy["sources"][0];
    assert_eq!(copy["files"][0]["known_by"], "sha256", "{copy}");
    assert_eq!(copy["bytes_fetched"], 0, "{copy}");

    let listed = |kind| site.json(&["ls".as_ref(), std::ffi::OsStr::new(kind)]);
    let objects = listed("--objects");
    for (source, variables) in [
        ("s3://models/damaged/model.safetensors", &signed[..]),
        ("s3://models/damaged", &public),
    ] {
        let damaged = pull(source, variables).expect(4);
        let expected = "expected CRC32 AAAAAA==, found CRC32 ";
        for words in [expected, "damaged at its source"] {
            assert!(damaged.stderr.contains(words), "{damaged:?}");
        }
    }
    assert_eq!(listed("--objects"), objects);

    // A checksum shows damage, and names no content.
    let identities = || listed("--identities").to_string().matches("sha256").count();
    let before = identities();
    let intact = pull("s3://models/crc32", &signed).expect(0).json();
    assert_eq!(intact["sources"][0]["files"][0]["known_by"], "reading");
    assert_eq!(identities(), before);
}

#[test]
fn a_bucket_that_asks_to_wait_is_not_asked_again_before() {
    let site = Site::new();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", server.local_addr().unwrap());
    let pull = |source: &str| {
        let mut pull = site.command(&["pull", source]);
        pull.env("AWS_ENDPOINT_URL", &endpoint)
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "us-east-1")
            .env("HOME", site.dir())
            .env_remove("AWS_PROFILE");
        pull
    };
    let asked = std::thread::spawn(move || {
        let mut asked = Vec::new();
        // An hour is an error; of a second, the pull waits that long and asks for the rest.
        for seconds in [3600, 1, 3600] {
            let (mut client, _) = server.accept().unwrap();
            asked.push(std::time::Instant::now());
            let mut head = [0; 4096];
            let _request = std::io::Read::read(&mut client, &mut head).unwrap();
            let answer = format!(
                "HTTP/1.1 503 Slow Down\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            std::io::Write::write_all(&mut client, answer.as_bytes()).unwrap();
        }
        asked
    });
    for _ in 0..2 {
        let busy = run(&mut pull("s3://models/m")).expect(1);
        assert!(busy.stderr.contains("asks to wait 3600 s"), "{busy:?}");
    }
    let asked = asked.join().unwrap();
    assert!(asked[2] - asked[1] >= std::time::Duration::from_secs(1));
}

#[test]
fn artifacts_of_a_registry_that_wants_a_login() {
    let site = Site::new();
    let Some(registry) = Registry::start(site.dir()) else {
        return;
    };
    let content = site.dir().join("content");
    write_sharded(&content);
    std::fs::create_dir(content.join("tokenizer")).unwrap();
    std::fs::write(content.join("tokenizer/vocab.txt"), "a b").unwrap();
    let oras = ("application/octet-stream", "org.opencontainers.image.title");
    let model_pack = (
        "application/vnd.cncf.model.weight.v1.raw",
        "org.cncf.model.filepath",
    );
    let image = ("application/vnd.oci.image.layer.v1.tar+gzip", "image");
    let digest = registry.push("models/oras", &content, oras.0, oras.1);
    registry.push("models/pack", &content, model_pack.0, model_pack.1);
    registry.push("models/image", &content, image.0, image.1);
    let docker = site.dir().join("docker");
    std::fs::create_dir(&docker).unwrap();
    let pull = |name: &str| {
        let source = format!("oci://{}/models/{name}", registry.address);
        let mut pull = site.command(&["pull", &source, "--format", "json"]);
        pull.env("DOCKER_CONFIG", &docker);
        run(&mut pull)
    };

    let refused = pull("oras:v1").expect(1);
    assert!(refused.stderr.contains("docker login"), "{refused:?}");
    registry.log_in(&docker);

    let first = pull("oras:v1").expect(0).json();
    let source = &first["sources"][0];
    assert_eq!(source["revision"], digest.as_str());
    assert_eq!(source["files"].as_array().unwrap().len(), 4, "{source}");
    assert_eq!(site.load(&content)["models"][0]["bytes_new"], 0);
    // The same bytes in another artifact: their digests are known.
    for name in ["pack:v1", &format!("oras@{digest}")] {
        let again = pull(name).expect(0).json();
        assert_eq!(again["sources"][0]["bytes_fetched"], 0, "{again}");
    }
    // An image whose layer is an archive: the objects of the files are there.
    let listed = run(site
        .command(&["pull", "--list", "--format", "json"])
        .arg(format!("oci://{}/models/image:v1", registry.address))
        .env("DOCKER_CONFIG", &docker));
    let listed = listed.expect(0).json();
    let archives = listed["sources"][0]["archives"].as_array().unwrap();
    assert_eq!(archives.len(), 1, "{listed}");
    let image = pull("image:v1").expect(0).json();
    let source = &image["sources"][0];
    assert_eq!(source["bytes_fetched"], archives[0]["bytes"], "{source}");
    let files = source["files"].as_array().unwrap();
    assert_eq!(files.len(), 4, "{source}");
    assert!(
        files.iter().all(|file| file["objects_new"] == 0),
        "{source}"
    );
    let again = pull("image:v1").expect(0).json();
    assert_eq!(again["sources"][0]["bytes_fetched"], 0, "{again}");
    let missing = pull("oras:v2").expect(1);
    assert!(
        missing.stderr.contains("check repository and tag"),
        "{missing:?}"
    );
    let wrong = format!("oras@sha256:{}", "0".repeat(64));
    pull(&wrong).expect(1);
}

#[test]
fn the_hub_s_own_client_agrees_with_ours() {
    let Some(python) = python() else { return };
    let site = Site::new();
    let hub = ModelSite::new();
    let model = site.dir().join("m.safetensors");
    write_model(&model, 3, None);
    hub.put_in_repo("org/m", "model.safetensors", std::fs::read(&model).unwrap());
    hub.put_in_repo("org/m", "config.json", r#"{"model_type":"x"}"#);
    hub.put_in_repo("org/m", "sub/notes.txt", bytes(8, 1000));
    let cache = site.dir().join("hub");
    // It also adds a file as `push` adds sidecars.
    let script = "from huggingface_hub import HfApi, snapshot_download
HfApi(token='t').upload_file(path_or_fileobj=b'x', path_in_repo='added.txt', repo_id='org/m')
print(snapshot_download('org/m'))";
    let snapshot = Command::new(python)
        .args(["-c", script])
        .env("HF_ENDPOINT", hub.url())
        .env("HF_HOME", &cache)
        .env("HF_HUB_DISABLE_XET", "1")
        .env("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        .output()
        .unwrap();
    assert!(snapshot.status.success(), "{snapshot:?}");
    let snapshot = PathBuf::from(String::from_utf8(snapshot.stdout).unwrap().trim());
    let mut pull = site.command(&["pull", "hf://org/m", "--format", "json"]);
    pull.env("HF_ENDPOINT", hub.url())
        .env("HF_HOME", "/nowhere")
        .env_remove("HF_TOKEN");
    let pulled = run(&mut pull).expect(0).json();
    let paths: Vec<_> = pulled["sources"][0]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        paths,
        [
            "added.txt",
            "config.json",
            "model.safetensors",
            "sub/notes.txt"
        ]
    );
    for path in &paths {
        assert!(snapshot.join(path).exists(), "{path}");
    }
    // The client's cache names the file by the digest that our pull has proved: it is not read.
    let loaded = site.load(&snapshot);
    let model = &loaded["models"][0];
    assert_eq!(
        (&model["bytes_read"], &model["bytes_new"]),
        (&0.into(), &0.into()),
        "{loaded}"
    );
}

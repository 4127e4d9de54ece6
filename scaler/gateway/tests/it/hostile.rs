//! Clients that mean harm: others notice nothing, and no instance sees a second request in one.

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{ask, connect_from, infer, raw, send, send_from, whole};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

#[tokio::test]
async fn a_slow_body_takes_no_slot() {
    let instance = Instance::start("one", Mode::Answer);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream
            .write_all(
                b"POST /functions/embed/x HTTP/1.1\r\nhost: g\r\ncontent-length: 100\r\n\r\n{",
            )
            .await
            .unwrap();
        slow.push(stream);
    }
    gateway.arrived("embed", 20).await;
    let load = gateway.loads().await["functions"][0].clone();
    assert_eq!(load["requests"], 0, "none of them may start an instance");
    assert_eq!(ask(gateway.address, "embed").await.body, "one");
    assert_eq!(gateway.loads().await["functions"][0]["waiting"], 0);
}

#[tokio::test]
async fn slow_heads_and_bodies_come_to_an_end() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[timeouts]\nhead = \"200ms\"\nbody = \"200ms\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    for begin in [
        "",
        "PRI * HT",
        "PRI * HTTP/2.0\r\n\r\n",
        "POST /functions/embed/x HT",
    ] {
        let answer = raw(gateway.address, begin.as_bytes()).await;
        assert!(!answer.contains(" 200 "), "{begin}: {answer}");
    }
    let body = "POST /functions/embed/x HTTP/1.1\r\nhost: g\r\ncontent-length: 9\r\n\r\n{";
    let answer = raw(gateway.address, body.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(instance.seen().is_empty());
}

#[tokio::test]
async fn requests_with_two_readings_are_refused_and_never_seen_as_two() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[timeouts]\nhead = \"300ms\"\nbody = \"300ms\"\n{}",
        function("embed", "", &[instance.address], 8)
    );
    let gateway = Gateway::start(&text).await;
    let hidden = "GET /hidden HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n";
    let forms = [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n",
        "content-length: 4\r\ncontent-length: 60\r\n\r\nabcd",
        "content-length: 4, 60\r\n\r\nabcd",
        "content-length: +4\r\n\r\nabcd",
        "content-length: 0x4\r\n\r\nabcd",
        "content-length : 4\r\n\r\nabcd",
        " content-length: 4\r\n\r\nabcd",
        "transfer-encoding: identity\r\ncontent-length: 4\r\n\r\nabcd",
        "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: x\r\n\r\n0\r\n\r\n",
        "transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        "transfer-encoding: chunked\r\n\r\nffffffffffffffff0\r\n",
        "transfer-encoding: chunked\r\n\r\n4;\nx\r\nabcd\r\n0\r\n\r\n",
        "host: other\r\n\r\n",
        "connection: upgrade\r\nupgrade: websocket\r\ncontent-length: 0\r\n\r\n",
    ];
    for form in forms {
        let text = format!("POST /functions/embed/x HTTP/1.1\r\nhost: g\r\n{form}{hidden}");
        let before = instance.seen().len();
        let answer = raw(gateway.address, text.as_bytes()).await;
        let seen = instance.seen();
        let paths: Vec<_> = seen
            .iter()
            .skip(before)
            .map(|instance| instance.path.as_str())
            .collect();
        // A second request has no prefix of a function: the gateway answers it itself, with 404.
        assert!(
            paths.len() <= 1 && !paths.contains(&"/hidden"),
            "{form:?}: {paths:?}"
        );
        if paths.is_empty() {
            assert!(!answer.starts_with("HTTP/1.1 200"), "{form:?}: {answer}");
        }
    }
    // A chunked body goes on with a length, and the second request on the connection is the gateway's.
    let good = format!(
        "POST /functions/embed/x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n{hidden}"
    );
    let answer = raw(gateway.address, good.as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 404"),
        "{answer}"
    );
    let seen = instance.seen();
    let last = seen.last().unwrap();
    assert_eq!(
        (&last.body[..], &last.headers["content-length"]),
        (&b"abcd"[..], &"4".parse().unwrap())
    );
    assert!(!last.headers.contains_key("transfer-encoding"));
}

#[tokio::test]
async fn large_heads_and_bodies_are_refused() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[limits]\nhead = \"8KiB\"\nbody = \"1KiB\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    let line = format!("x-large: {}\r\n", "x".repeat(1_000));
    let head = format!(
        "GET /functions/embed/x HTTP/1.1\r\nhost: g\r\n{}\r\n",
        line.repeat(20)
    );
    let answer = raw(gateway.address, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = "x-many: 1\r\n".repeat(500);
    let answer = raw(
        gateway.address,
        format!("GET /functions/embed/x HTTP/1.1\r\nhost: g\r\n{many}\r\n").as_bytes(),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let mut request = infer("embed");
    *request.body_mut() = http_body_util::Full::new(vec![b' '; 1_025].into());
    let answer = whole(send(gateway.address, request).await.unwrap()).await;
    assert_eq!(answer.status.as_u16(), 413);
    let chunked = format!(
        "POST /functions/embed/x HTTP/1.1\r\nhost: g\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n401\r\n{}\r\n0\r\n\r\n",
        " ".repeat(0x401)
    );
    let answer = raw(gateway.address, chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(instance.seen().is_empty());
}

#[tokio::test]
async fn one_client_gets_its_connections_and_no_more() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[limits]\nconnections_per_client = 10\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(TcpStream::connect(gateway.address).await.unwrap());
    }
    // The eleventh is closed at once.
    assert_eq!(raw(gateway.address, b"").await, "");
    // Another address of this machine is another client.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.9:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(gateway.address).await.unwrap();
    other
        .write_all(b"GET /functions/embed/x HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut other, &mut answer)
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(open);
}

#[tokio::test]
async fn a_client_and_a_function_get_a_part_of_the_memory_for_bodies() {
    let busy = Instance::start("busy", Mode::Hold);
    let idle = Instance::start("idle", Mode::Answer);
    let text = format!(
        "[limits]\nbody = \"8KiB\"\nbodies = \"32KiB\"\n{}{}",
        function("busy", "", &[busy.address], 1),
        function("idle", "", &[idle.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    let large = |function: &str| {
        let mut request = infer(function);
        *request.body_mut() = http_body_util::Full::new(vec![b' '; 8 << 10].into());
        request
    };
    let address = gateway.address;
    let hold = |from: &'static str| {
        let request = large("busy");
        tokio::spawn(async move { whole(send_from(from, address, request).await.unwrap()).await })
    };
    let mut bodies = vec![hold("127.0.0.1:0")];
    // An instance has the first body: the gateway keeps no part of it.
    while busy.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    bodies.extend([hold("127.0.0.1:0"), hold("127.0.0.1:0")]);
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 2)
        .await;
    // The client has half of all, whatever the function.
    for function in ["busy", "idle"] {
        let refused = whole(send(address, large(function)).await.unwrap()).await;
        assert_eq!(refused.status.as_u16(), 503);
        assert!(refused.body.contains("limits.bodies"), "{}", refused.body);
    }
    // So has the function, whatever the client.
    let other = "127.0.0.2:0";
    let refused = whole(send_from(other, address, large("busy")).await.unwrap()).await;
    assert_eq!(refused.status.as_u16(), 503);
    let answer = whole(send_from(other, address, large("idle")).await.unwrap()).await;
    assert_eq!(answer.body, "idle");
    busy.open();
    for task in bodies.drain(..) {
        assert_eq!(task.await.unwrap().body, "busy");
    }
    assert_eq!(
        whole(send(address, large("idle")).await.unwrap())
            .await
            .body,
        "idle"
    );
}

#[tokio::test]
async fn a_client_with_a_small_body_is_served_beside_others_who_hold_its_functions_part() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[limits]\nbody = \"256KiB\"\nbodies = \"1MiB\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    // Bodies without their ends, of several clients.
    let mut open = Vec::new();
    for host in 2..10 {
        let mut stream = connect_from(&format!("127.0.0.{host}:0"), gateway.address).await;
        let head = b"POST /functions/embed/x HTTP/1.1\r\nhost: g\r\ncontent-length: 262144\r\n\r\n";
        drop(
            stream
                .write_all(&[&head[..], &vec![b'x'; 130 << 10]].concat())
                .await,
        );
        open.push(stream);
    }
    let mut request = infer("embed");
    *request.body_mut() = http_body_util::Full::new(vec![b' '; 10 << 10].into());
    while !gateway.page("/metrics").await.contains("reason=\"bodies\"") {
        tokio::task::yield_now().await;
    }
    let answer = whole(send(gateway.address, request).await.unwrap()).await;
    assert_eq!(answer.body, "one");
}

#[tokio::test]
async fn a_body_that_trickles_is_refused() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[timeouts]\nbody = \"400ms\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let head = b"POST /functions/embed/x HTTP/1.1\r\nhost: g\r\ncontent-length: 100000\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let (mut reads, mut writes) = stream.into_split();
    // A byte each time before a pause would be too long.
    let trickle = tokio::spawn(async move {
        while writes.write_all(b"x").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    });
    let mut answer = [0; 13];
    reads.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408 ");
    drop(reads);
    trickle.await.unwrap();
    assert!(instance.seen().is_empty());
}

#[tokio::test]
async fn many_fields_by_http2_are_refused_and_their_connection_ends() {
    let instance = Instance::start("one", Mode::Answer);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut refused = 0;
    loop {
        let mut request = infer("embed");
        *request.uri_mut() = "http://g/functions/embed/x".parse().unwrap();
        for _ in 0..101 {
            let value = hyper::header::HeaderValue::from_static("1");
            request.headers_mut().append("x-many", value);
        }
        match sender.send_request(request).await {
            Ok(response) => assert_eq!(response.status().as_u16(), 431),
            Err(_) => break,
        }
        refused += 1;
    }
    assert!((1..=16).contains(&refused), "{refused}");
    assert!(instance.seen().is_empty());
    let metrics = gateway.page("/metrics").await;
    assert!(metrics.contains("tetris_gateway_not_admitted_total{reason=\"head-fields\"} 16"));
}

#[tokio::test]
async fn heads_that_one_client_holds_leave_room_for_others() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[limits]\nheads = \"2MiB\"\n{}{}",
        function("embed", "", &[instance.address], 1),
        function("zero", "queue = 100000", &[], 1)
    );
    let gateway = Gateway::start(&text).await;
    let mut tasks = tokio::task::JoinSet::new();
    let address = gateway.address;
    for _ in 0..200 {
        tasks.spawn(async move { send(address, infer("zero")).await.map(|head| head.status()) });
    }
    // As many as fit wait; the others are refused.
    let refused = tasks.join_next().await.unwrap().unwrap();
    assert!(refused.is_err() || refused.unwrap() == 503);
    let other = send_from("127.0.0.9:0", address, infer("embed")).await;
    assert_eq!(whole(other.unwrap()).await.body, "one");
    drop(tasks);
    while !gateway
        .page("/metrics")
        .await
        .contains("tetris_gateway_memory_bytes{budget=\"heads\"} 0")
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_by_http2_without_requests_ends() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[timeouts]\nhead = \"300ms\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    let stream = TcpStream::connect(gateway.address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut request = infer("embed");
    *request.uri_mut() = "http://g/functions/embed/x".parse().unwrap();
    assert_eq!(
        whole(sender.send_request(request).await.unwrap())
            .await
            .body,
        "one"
    );
    // The client would keep it for as long as it is there itself.
    connection.await.unwrap().unwrap();
    drop(sender);
}

mod passed;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use holdfast_core::ports::Sent;
use http::{HeaderMap, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::*;
use crate::config::PrivateHost;

const GENEROUS: Duration = Duration::from_secs(20);

fn client(exceptions: &[PrivateHost]) -> GuardedHttp {
    GuardedHttp::new(Guard::new(exceptions), Duration::from_secs(5)).unwrap()
}

fn local() -> GuardedHttp {
    client(&[PrivateHost::Loopback])
}

fn request(method: Method, url: &str) -> HttpRequest {
    HttpRequest {
        method,
        url: url.parse().unwrap(),
        exact: None,
        headers: HeaderMap::new(),
        body: Body::empty(),
        timeout: GENEROUS,
    }
}

fn post(url: &str) -> HttpRequest {
    HttpRequest { body: Body::Bytes(Bytes::from_static(b"grant_type=refresh_token")), ..request(Method::POST, url) }
}

/// A server that treats each connection as told; and how many there were.
async fn server<F: Future<Output = ()> + Send>(
    each: impl Fn(TcpStream) -> F + Send + Copy + 'static,
) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/oauth/tokens?code=hush", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move { each(stream).await });
        }
    });
    (url, connections)
}

/// Reads one request without its body's end mattering.
async fn read(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4096];
    let length = stream.read(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut seen = String::new();
    while !seen.ends_with(end) {
        seen += &read(stream).await;
    }
    seen
}

async fn answer(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// A request on which the server neither answers nor hangs up.
async fn stall(mut stream: TcpStream) {
    read(&mut stream).await;
    std::future::pending::<()>().await;
}

async fn refusal(http: &GuardedHttp, request: HttpRequest) -> HttpFailure {
    let failure = http.send(request).await.err().expect("no answer");
    assert!(!failure.message.contains("hush"), "{failure}");
    failure
}

#[tokio::test]
async fn a_refused_connection_was_surely_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/?code=hush", listener.local_addr().unwrap());
    drop(listener);

    let failure = refusal(&local(), post(&url)).await;

    assert_eq!(failure.sent, Sent::No, "{failure}");
    assert!(failure.message.contains("refused"), "{failure}");
}

#[tokio::test]
async fn an_unknown_host_was_surely_not_sent() {
    let failure = refusal(&local(), post("https://no-such-host.invalid/?code=hush")).await;

    assert_eq!(failure.sent, Sent::No, "{failure}");
}

#[tokio::test]
async fn a_failed_handshake_was_surely_not_sent() {
    let (url, _) = server(async |mut stream| {
        read(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;

    let failure = refusal(&local(), post(&url.replace("http:", "https:"))).await;

    assert_eq!(failure.sent, Sent::No, "{failure}");
}

#[tokio::test]
async fn a_connection_closed_without_an_answer_may_have_been_sent() {
    let (url, connections) = server(async |mut stream| drop(read(&mut stream).await)).await;

    let failure = refusal(&local(), post(&url)).await;

    assert_eq!(failure.sent, Sent::Maybe, "{failure}");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_that_is_no_http_may_have_been_sent() {
    let (url, _) = server(async |mut stream| {
        read(&mut stream).await;
        answer(&mut stream, "SSH-2.0-OpenSSH_9.2\r\n\r\n").await;
    })
    .await;

    assert_eq!(refusal(&local(), post(&url)).await.sent, Sent::Maybe);
}

#[tokio::test]
async fn silence_until_the_time_out_may_have_been_sent() {
    let (url, _) = server(stall).await;

    let failure = refusal(&local(), HttpRequest { timeout: Duration::from_millis(100), ..post(&url) }).await;

    assert_eq!(failure.sent, Sent::Maybe, "{failure}");
    assert!(failure.message.ends_with("within 0.1 s"), "{failure}");
}

#[tokio::test]
async fn a_body_that_is_asked_for_too_late_is_not_sent() {
    let (seen, mut all) = tokio::sync::mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/oauth/tokens", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let _cut = stream.read_to_end(&mut bytes).await;
        seen.send(String::from_utf8_lossy(&bytes).into_owned()).unwrap();
    });
    let body = Timely::new(Bytes::from_static(b"refresh_token=spent-meanwhile"), Duration::ZERO);
    let http = local();
    let client = &http.guarded.single;

    let error = client.post(url).body(reqwest::Body::wrap(body)).send().await.unwrap_err();

    assert!(TooLate::caused(&error) && error.source().is_some(), "{error:?}");
    let seen = all.recv().await.unwrap();
    assert!(!seen.contains("spent-meanwhile"), "{seen}");
}

#[tokio::test]
async fn a_body_that_is_known_has_its_length_told() {
    let (seen, mut all) = tokio::sync::mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/oauth/tokens", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        seen.send(read_until(&mut stream, "grant_type=refresh_token").await).unwrap();
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    });

    assert_eq!(local().send(post(&url)).await.unwrap().status, StatusCode::OK);

    let seen = all.recv().await.unwrap().to_lowercase();
    assert!(seen.contains("content-length: 24") && !seen.contains("chunked"), "{seen}");
}

#[tokio::test]
async fn a_redirect_is_an_answer() {
    let (url, connections) = server(async |mut stream| {
        read(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;

    let response = local().send(request(Method::GET, &url)).await.unwrap();

    assert_eq!(response.status, StatusCode::FOUND);
    assert_eq!(response.headers["location"], "/elsewhere");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_body_cut_in_the_middle_fails_while_it_is_read() {
    let (url, _) = server(async |mut stream| {
        read(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"access_").await;
    })
    .await;

    let response = local().send(post(&url)).await.unwrap();
    let failure = response.bytes(1000).await.unwrap_err();

    assert_eq!(failure.sent, Sent::Maybe, "{failure}");
    assert!(failure.message.contains("broke off") && !failure.message.contains("hush"), "{failure}");
}

#[tokio::test]
async fn a_body_that_stands_still_fails_after_the_same_time() {
    let (url, _) = server(async |mut stream| {
        read(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{").await;
        std::future::pending::<()>().await;
    })
    .await;

    let response = local().send(HttpRequest { timeout: Duration::from_millis(300), ..post(&url) }).await.unwrap();
    let failure = timeout(GENEROUS, response.bytes(1000)).await.unwrap().unwrap_err();

    assert!(failure.message.contains("stood still"), "{failure}");
}

#[tokio::test]
async fn bodies_stream_both_ways() {
    let (url, _) = server(async |mut stream| {
        let mut seen = read_until(&mut stream, "one\r\n").await;
        answer(&mut stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nseen\r\n").await;
        seen += &read_until(&mut stream, "0\r\n\r\n").await;
        let both = if seen.contains("two\r\n") { "both" } else { "lost" };
        answer(&mut stream, &format!("4\r\n{both}\r\n0\r\n\r\n")).await;
    })
    .await;
    // The second half of the request waits for the first half of the answer.
    let (more, waits) = tokio::sync::oneshot::channel::<Bytes>();
    let chunks = stream::once(async { Bytes::from("one") }).chain(stream::once(async { waits.await.unwrap() })).map(Ok);

    let sent = HttpRequest { body: Body::Once(Box::pin(chunks)), ..request(Method::PUT, &url) };
    let mut body = local().send(sent).await.unwrap().body;
    let first = body.next().await.unwrap().unwrap();
    more.send(Bytes::from("two")).unwrap();
    let second = body.next().await.unwrap().unwrap();

    assert_eq!((first, second), (Bytes::from("seen"), Bytes::from("both")));
}

/// Answers once, keeps the connection, and hangs up on its second request.
async fn once_then_hang_up(mut stream: TcpStream) {
    read(&mut stream).await;
    answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    read(&mut stream).await;
}

#[tokio::test]
async fn what_must_not_be_repeated_has_a_connection_of_its_own() {
    let (url, connections) = server(once_then_hang_up).await;
    let http = local();

    for made in 1..=3 {
        http.send(post(&url)).await.unwrap().bytes(10).await.unwrap();

        assert_eq!(connections.load(Ordering::SeqCst), made);
    }
}

#[tokio::test]
async fn a_request_that_a_pooled_connection_swallowed_is_not_sent_again() {
    let (url, connections) = server(once_then_hang_up).await;
    let http = local();

    http.send(request(Method::GET, &url)).await.unwrap().bytes(10).await.unwrap();
    let failure = refusal(&http, request(Method::GET, &url)).await;

    assert_eq!(failure.sent, Sent::Maybe, "{failure}");
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn private_addresses_are_refused_before_anything_is_sent() {
    let (url, connections) = server(stall).await;
    let port = url.split(':').nth(2).unwrap().split('/').next().unwrap();
    let strict = client(&[]);

    for url in [url.clone(), url.replace("http:", "https:"), format!("https://localhost:{port}/?code=hush")] {
        let failure = refusal(&strict, post(&url)).await;

        assert_eq!(failure.sent, Sent::No, "{failure}");
        assert!(failure.message.contains("is not a public address"), "{failure}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn an_exception_holds_for_its_host_and_port_alone() {
    let (url, _) = server(once_then_hang_up).await;
    let (other, _) = server(once_then_hang_up).await;
    let port = url.split(':').nth(2).unwrap().split('/').next().unwrap().parse().unwrap();
    let http = client(&[PrivateHost::Exactly(url::Host::Domain("localhost".to_owned()), port)]);

    let allowed = http.send(post(&url.replace("127.0.0.1", "localhost"))).await;

    assert!(allowed.is_ok());
    assert_eq!(refusal(&http, post(&other.replace("127.0.0.1", "localhost"))).await.sent, Sent::No);
    assert_eq!(refusal(&http, post(&url)).await.sent, Sent::No);
}

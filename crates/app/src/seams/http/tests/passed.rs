//! Requests that are passed through.

use std::sync::Mutex;

use holdfast_core::ports::Sent;
use http::{HeaderValue, header};
use tokio::sync::mpsc;

use super::*;

fn passed(method: Method, url: &str, target: &str) -> HttpRequest {
    HttpRequest { exact: Some(target.parse().unwrap()), ..request(method, url) }
}

fn streamed(body: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    Body::Once(Box::pin(body.map(Ok)))
}

#[tokio::test]
async fn path_query_and_headers_go_out_as_they_are() {
    static SEEN: Mutex<String> = Mutex::new(String::new());
    let (url, _) = server(async |mut stream| {
        *SEEN.lock().unwrap() = read(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
    })
    .await;
    let target = "/x/%c3%A4//a'b(1)?q='a'&page[size]=1&r=%2f+%20|{}";
    let mut request = passed(Method::GET, &url, target);
    request.headers.append("x-two", HeaderValue::from_static("one"));
    request.headers.append("x-two", HeaderValue::from_static("two"));

    let status = local().send(request).await.unwrap().status;

    assert_eq!(status, StatusCode::NO_CONTENT);
    let seen = SEEN.lock().unwrap().clone();
    let mut lines: Vec<&str> = seen.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.remove(0), format!("GET {target} HTTP/1.1"));
    let agent = format!("user-agent: {USER_AGENT}");
    let host = format!("host: {}", url.split('/').nth(2).unwrap());
    assert_eq!(lines, ["x-two: one", "x-two: two", &agent, &host], "nothing of ours is added");
}

#[tokio::test]
async fn a_compressed_answer_stays_compressed() {
    let (url, _) = server(async |mut stream| {
        read(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 7\r\n\r\nno gzip").await;
    })
    .await;

    let response = local().send(passed(Method::GET, &url, "/")).await.unwrap();

    assert_eq!(response.headers[header::CONTENT_ENCODING], "gzip");
    assert_eq!(response.headers[header::CONTENT_LENGTH], "7");
    assert_eq!(response.bytes(100).await.unwrap(), "no gzip");
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_another_protocol_is_none() {
    for (status, headers, passes) in [
        ("302 Found", "location: http://169.254.169.254/", true),
        ("101 Switching", "connection: upgrade\r\nupgrade: x", false),
    ] {
        let text: &'static str = format!("HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: 0\r\n\r\n").leak();
        let (url, connections) = server(async move |mut stream: TcpStream| {
            read(&mut stream).await;
            answer(&mut stream, text).await;
        })
        .await;

        let answered = local().send(passed(Method::GET, &url, "/")).await;

        assert_eq!(answered.is_ok(), passes, "{status}");
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn private_addresses_and_dead_ports_are_refused_before_anything_is_sent() {
    let (url, connections) = server(stall).await;
    let port = url.split(':').nth(2).unwrap().split('/').next().unwrap();

    for url in [url.clone(), url.replace("http:", "https:"), format!("https://localhost:{port}/")] {
        let failure = refusal(&client(&[]), passed(Method::GET, &url, "/?code=hush")).await;

        assert_eq!(failure.sent, Sent::No, "{failure}");
        assert!(failure.message.contains("is not a public address"), "{failure}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    let dead = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let failure = refusal(&local(), passed(Method::GET, &format!("http://{dead}/"), "/?code=hush")).await;
    assert_eq!(failure.sent, Sent::No, "{failure}");
    assert!(failure.message.contains("refused"), "{failure}");
}

#[tokio::test]
async fn silence_and_hanging_up_may_have_been_sent() {
    let (silent, _) = server(stall).await;
    let (gone, _) = server(async |mut stream| drop(read(&mut stream).await)).await;

    for url in [silent, gone] {
        let request = HttpRequest { timeout: Duration::from_millis(200), ..passed(Method::POST, &url, "/?code=hush") };
        assert_eq!(refusal(&local(), request).await.sent, Sent::Maybe);
    }
}

/// AP-01
#[tokio::test]
async fn an_answer_before_the_end_of_the_body_is_heard() {
    let (url, _) = server(async |mut stream| {
        read_until(&mut stream, "first\r\n").await;
        answer(&mut stream, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
    })
    .await;
    // The rest never comes.
    let body = stream::once(async { Bytes::from("first") }).chain(stream::pending());

    let request = HttpRequest { body: streamed(body), ..passed(Method::POST, &url, "/") };
    let response = timeout(GENEROUS, local().send(request)).await.unwrap().unwrap();

    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
    assert_eq!(response.bytes(10).await.unwrap(), "no");
}

/// AP-01: the answer is there, and the line is reset while the rest of the body is still being sent.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_heard_from_a_server_that_hangs_up_at_once() {
    let (url, _) = server(async |mut stream| {
        read(&mut stream).await;
        answer(&mut stream, "HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
    })
    .await;
    let http = local();
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);

    for round in 0..100 {
        let body = stream::iter(std::iter::repeat_n(piece.clone(), 128));
        let request = HttpRequest { body: streamed(body), ..passed(Method::POST, &url, "/") };
        let sent = timeout(GENEROUS, http.send(request)).await.expect("it does not hang");

        let response = sent.unwrap_or_else(|failure| panic!("round {round}: {failure}"));
        assert_eq!(response.status, StatusCode::UNAUTHORIZED);
        assert_eq!(response.bytes(10).await.unwrap(), "no");
    }
}

#[tokio::test]
async fn a_body_that_goes_on_may_take_its_time_and_one_that_does_not_may_not() {
    let (url, _) = server(async |mut stream| {
        read_until(&mut stream, "0\r\n\r\n").await;
        answer(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
    })
    .await;
    let limit = Duration::from_secs(1);
    let (pieces, mut taken) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut every = tokio::time::interval(limit * 2 / 5);
        for _ in 0..5 {
            every.tick().await;
            pieces.send(Bytes::from("x")).await.unwrap();
        }
    });
    let body = stream::poll_fn(move |context| taken.poll_recv(context));

    let request = HttpRequest { body: streamed(body), timeout: limit, ..passed(Method::PUT, &url, "/") };
    assert_eq!(local().send(request).await.unwrap().status, StatusCode::NO_CONTENT);

    let request =
        HttpRequest { body: streamed(stream::pending()), timeout: limit / 5, ..passed(Method::PUT, &url, "/") };
    let failure = timeout(GENEROUS, refusal(&local(), request)).await.unwrap();
    assert!(failure.message.ends_with("within 0.2 s"), "{failure}");
}

//! What `benches/sinks --only speed` holds deliveries against: a receiver, and a bare loop that posts
//! to it with the same HTTP library. It signs nothing, keeps no position and promises nothing.
//!
//!     post receive DELAY_MS                 prints its address, then serves; GET / returns its counts
//!     post bare URL COUNT CONCURRENCY BYTES posts so often, with so many requests under way

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::routing::get;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    // An error says that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let given: Vec<String> = std::env::args().skip(1).collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match given[..] {
        ["receive", delay] => runtime.block_on(receive(Duration::from_millis(delay.parse()?))),
        ["bare", url, count, concurrency, bytes] => {
            let body = Bytes::from("x".repeat(bytes.parse()?));
            runtime.block_on(bare(url, count.parse()?, concurrency.parse()?, body))
        }
        // `cargo bench` starts every bench program without what this one needs.
        _ => {
            println!("post is started by benches/sinks");
            Ok(())
        }
    }
}

/// Counts requests, and remembers when the first and the last one came.
#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

async fn receive(delay: Duration) -> Outcome {
    let (counts, begun) = (Arc::new(Counts::default()), Instant::now());
    let told = Arc::clone(&counts);
    let tell = async move || {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (requests, first, last) = (read(&told.requests), read(&told.first), read(&told.last));
        format!("{requests} {first} {last}")
    };
    let take = async move |_body: Bytes| {
        let now = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        if counts.requests.fetch_add(1, Ordering::Relaxed) == 0 {
            counts.first.store(now, Ordering::Relaxed);
        }
        counts.last.store(now, Ordering::Relaxed);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        StatusCode::NO_CONTENT
    };
    let router = Router::new().route("/", get(tell).post(take));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

async fn bare(url: &str, count: usize, concurrency: usize, body: Bytes) -> Outcome {
    let client =
        reqwest::Client::builder().no_proxy().tls_certs_only(std::iter::empty()).build()?;
    let begun = Instant::now();
    let mut under_way = FuturesUnordered::new();
    let (mut begun_requests, mut done) = (0, 0);
    while done < count {
        while begun_requests < count && under_way.len() < concurrency {
            let request = client.post(url).header("content-type", "application/json");
            under_way.push(request.body(body.clone()).send());
            begun_requests += 1;
        }
        if let Some(response) = under_way.next().await {
            response?.error_for_status()?.bytes().await?;
            done += 1;
        }
    }
    let cpu = std::fs::read_to_string("/proc/self/stat")?;
    let ticks: Vec<&str> = cpu.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    println!("{} {} {}", begun.elapsed().as_secs_f64(), ticks[11], ticks[12]);
    Ok(())
}

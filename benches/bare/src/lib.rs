//! One HTTP connection, which the bare programs beside this file send their requests over.
//!
//! They show what the libraries cost that shopmirror is built on. So nothing is retried, and any answer but a success
//! ends the program.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection that stays open.
#[derive(Debug)]
pub struct Connection {
    host: String,
    requests: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Connects to an address like `127.0.0.1:8080`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn open(host: &str) -> Result<Self> {
        let stream = TcpStream::connect(host).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let host = host.to_owned();
        Ok(Self { host, requests })
    }

    /// Reads a page of the workspace API.
    ///
    /// # Errors
    /// The connection was cut, or the answer is no success.
    pub async fn get(&mut self, path: &str, key: &str) -> Result<Bytes> {
        let request = Request::get(path)
            .header("host", &self.host)
            .header("authorization", format!("Bearer {key}"))
            .body(Full::default())?;
        self.send(request).await
    }

    /// Posts one JSON text.
    ///
    /// # Errors
    /// The connection was cut, or the answer is no success.
    pub async fn post(&mut self, path: &str, json: String) -> Result<()> {
        let request = Request::post(path)
            .header("host", &self.host)
            .header("content-type", "application/json")
            .body(Full::from(json))?;
        self.send(request).await?;
        Ok(())
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Bytes> {
        self.requests.ready().await?;
        let response = self.requests.send_request(request).await?;
        let status = response.status();
        ensure!(status.is_success(), "the answer is {status}");
        let body = response.into_body().collect().await?;
        Ok(body.to_bytes())
    }
}

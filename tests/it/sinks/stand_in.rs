//! Servers that say what a test tells them, whatever is asked, and may send without end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// One step of a conversation.
#[derive(Clone)]
pub(super) enum Step {
    /// Waits until the client has sent something.
    Hear,
    Say(Vec<u8>),
    /// Says this again and again, until the client closes the connection.
    Flood(Vec<u8>),
    /// The same, a hundred times a second.
    Trickle(Vec<u8>),
}

pub(super) fn say(text: impl AsRef<[u8]>) -> Step {
    Step::Say(text.as_ref().to_vec())
}

/// Says this again and again, many times in each write.
pub(super) fn flood(text: impl AsRef<[u8]>) -> Step {
    let text = text.as_ref();
    Step::Flood(text.repeat(1 + 65_536 / text.len()))
}

/// Says this again and again, a hundred times a second.
pub(super) fn trickle(text: impl AsRef<[u8]>) -> Step {
    Step::Trickle(text.as_ref().to_vec())
}

/// A server at a free port that has this conversation with each client, and then closes. Its thread
/// ends with the test program.
pub(super) fn server(steps: impl IntoIterator<Item = Step>) -> u16 {
    let steps: Vec<Step> = steps.into_iter().collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let steps = steps.clone();
            // An error means that the client has closed the connection.
            std::thread::spawn(move || converse(stream, &steps));
        }
    });
    port
}

fn converse(mut stream: TcpStream, steps: &[Step]) -> std::io::Result<()> {
    let mut heard = [0; 65_536];
    for step in steps {
        match step {
            Step::Hear if stream.read(&mut heard)? == 0 => return Ok(()),
            Step::Hear => {}
            Step::Say(text) => stream.write_all(text)?,
            Step::Flood(text) => loop {
                stream.write_all(text)?;
            },
            Step::Trickle(text) => loop {
                stream.write_all(text)?;
                std::thread::sleep(Duration::from_millis(10));
            },
        }
    }
    // What is still under way is read, so that the end is no reset.
    stream.shutdown(std::net::Shutdown::Write)?;
    while stream.read(&mut heard)? > 0 {}
    Ok(())
}

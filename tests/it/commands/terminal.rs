//! A program on a terminal of its own: what it shows, and keys pressed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::wait_until;

/// The terminal with its program, which is killed when the value is dropped.
pub(crate) struct Terminal {
    keys: File,
    /// Kept open, so that the terminal outlives the program.
    _screen: OwnedFd,
    child: Child,
    /// As bytes, because what is read at once may end within a character.
    shown: Arc<Mutex<Vec<u8>>>,
    read: usize,
}

impl Terminal {
    /// Starts a program as the foreground of a new terminal of 80 columns.
    pub(crate) fn start(command: &Command) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&keys, size).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let screen = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let end = || Stdio::from(screen.try_clone().unwrap());
        // Ctrl-C reaches only a program whose session has the terminal.
        let mut session = Command::new("setsid");
        session
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args());
        session.env_clear().envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        session.current_dir(command.get_current_dir().unwrap());
        let child = session
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let shown = Arc::<Mutex<Vec<u8>>>::default();
        let keys = File::from(keys);
        let mut reader = keys.try_clone().unwrap();
        let shared = Arc::clone(&shown);
        // Ends with an error once the program and this value have closed the terminal.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                shared.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Self {
            keys,
            _screen: screen,
            child,
            shown,
            read: 0,
        }
    }

    /// Waits until this text appears after the text of the previous call.
    pub(crate) async fn until(&mut self, text: &str) {
        let place = || {
            let shown = self.shown.lock().unwrap();
            let mut windows = shown[self.read..].windows(text.len());
            windows.position(|window| window == text.as_bytes())
        };
        wait_until(&format!("the terminal shows {text:?}"), || {
            place().is_some()
        })
        .await;
        self.read += place().unwrap() + text.len();
    }

    pub(crate) fn type_line(&mut self, text: &str) {
        self.press(&format!("{text}\n"));
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the program; returns its exit code.
    pub(crate) async fn end(&mut self) -> Option<i32> {
        let mut code = None;
        let child = &mut self.child;
        wait_until("the program ends", || {
            code = child.try_wait().unwrap();
            code.is_some()
        })
        .await;
        code.and_then(|status| status.code())
    }

    /// Everything shown so far.
    pub(crate) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    /// Whether the terminal shows what is typed.
    pub(crate) fn shows_typing(&self) -> bool {
        tcgetattr(&self.keys)
            .unwrap()
            .local_modes
            .contains(LocalModes::ECHO)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

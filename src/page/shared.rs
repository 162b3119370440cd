//! A value that all viewers share until it is too old: it is taken once for any number of viewers,
//! and not at all without requests.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The newest value with the time at which it was taken.
pub(super) struct Shared<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Shared<T> {
    /// The newest value, or the one that `take` takes if that is older than `age`.
    pub(super) async fn newest(&self, age: Duration, take: impl Future<Output = T>) -> T {
        let mut newest = self.0.lock().await;
        match &*newest {
            Some((at, value)) if at.elapsed() < age => value.clone(),
            _ => {
                let taken = take.await;
                *newest = Some((Instant::now(), taken.clone()));
                taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_viewers_share_one_value_per_second() {
        let every = Duration::from_secs(1);
        let (shared, taken) = (Shared::default(), Cell::new(0));
        let viewer = || async {
            for _ in 0..60 {
                shared
                    .newest(every, async { taken.set(taken.get() + 1) })
                    .await;
                sleep(every).await;
            }
        };
        futures_util::future::join_all((0..64).map(|_| viewer())).await;
        assert_eq!(taken.get(), 60);
    }
}

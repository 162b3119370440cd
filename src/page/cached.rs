//! A value that all viewers share until it is too old: it is taken once for any number of viewers,
//! and never without a request.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// The newest value with the time at which it was taken.
pub(super) struct Cached<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Cached<T> {
    /// The newest value, or the one that `take` takes if that is older than `age`.
    pub(super) async fn newest(&self, age: Duration, take: impl Future<Output = T>) -> T {
        let mut newest = self.0.lock().await;
        if let Some((at, value)) = &*newest
            && at.elapsed() < age
        {
            return value.clone();
        }
        let value = take.await;
        *newest = Some((Instant::now(), value.clone()));
        value
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
        let (cached, taken) = (Cached::default(), Cell::new(0));
        let viewer = || async {
            for _ in 0..60 {
                cached
                    .newest(every, async { taken.set(taken.get() + 1) })
                    .await;
                sleep(every).await;
            }
        };
        futures_util::future::join_all((0..64).map(|_| viewer())).await;
        assert_eq!(taken.get(), 60);
    }
}

//! The topics under which a sink let a broker keep the states of records, in the table `meta`: a record that
//! is forgotten is removed under those of before as well.

use rusqlite::Connection;

use super::Store;
use super::error::StoreError;
use super::meta;

/// So many topics are remembered, the newest last.
const MOST: usize = 8;

fn name_of(sink: &str) -> String {
    format!("state_topics_{sink}")
}

impl Store {
    /// Notes the topic that a sink uses now, and returns those that it used before.
    ///
    /// # Errors
    /// Nothing is noted.
    pub async fn note_state_topic(
        &self,
        sink: String,
        topic: String,
    ) -> Result<Vec<String>, StoreError> {
        let name = sink.clone();
        let mut topics = self.read(move |reader| Ok(read(&reader.connection, &name)?)).await?;
        let is_news = topics.last() != Some(&topic);
        topics.retain(|before| *before != topic);
        topics.drain(..topics.len().saturating_sub(MOST));
        let before = topics.clone();
        if is_news {
            topics.push(topic);
            let text = serde_json::to_string(&topics).expect("texts can be written as JSON");
            self.write(move |writer| Ok(meta::set(&writer.connection, &name_of(&sink), &text)?))
                .await?;
        }
        Ok(before)
    }
}

/// Forgets the topics of a sink that is forgotten.
pub(super) fn forget(connection: &Connection, sink: &str) -> rusqlite::Result<()> {
    meta::remove(connection, &name_of(sink))
}

fn read(connection: &Connection, sink: &str) -> rusqlite::Result<Vec<String>> {
    let text = meta::value(connection, &name_of(sink))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_eight_topics_of_before_are_known_and_the_one_of_now_is_none_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("mirror.db")).unwrap();
        let note = async |topic: &str| {
            store.note_state_topic("erp".to_owned(), topic.to_owned()).await.unwrap()
        };
        assert_eq!(note("a").await, [""; 0]);
        assert_eq!(note("a").await, [""; 0]);
        assert_eq!(note("b").await, ["a"]);
        assert_eq!(note("a").await, ["b"]);
        assert_eq!(note("a").await, ["b"]);
        for number in 0..20 {
            note(&number.to_string()).await;
        }
        let last: Vec<String> = (12..20).map(|number: i32| number.to_string()).collect();
        assert_eq!(note("now").await, last);
        let other = store.note_state_topic("other".to_owned(), "x".to_owned()).await.unwrap();
        assert_eq!(other, [""; 0]);
    }
}

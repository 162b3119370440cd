//! The topics under which a sink let a broker keep the states of records, in the table `meta`: a record that
//! is forgotten is removed under those of before as well.

use rusqlite::Connection;

use crate::store::error::StoreError;
use crate::store::handle::Store;
use crate::store::meta;

/// So many topics are remembered, the newest last.
const MAX: usize = 8;

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
        topics.drain(..topics.len().saturating_sub(MAX));
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
pub(in crate::store) fn forget(connection: &Connection, sink: &str) -> rusqlite::Result<()> {
    meta::remove(connection, &name_of(sink))
}

fn read(connection: &Connection, sink: &str) -> rusqlite::Result<Vec<String>> {
    let text = meta::value(connection, &name_of(sink))?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

-- Adds the states of the jobs in :ids, a JSON list, from the columns that exist: what stands in braces
-- is put in by job_states.rs. What is gone from its list does not count. Times are compared as the log
-- writes them; sums are in ten-thousandths, because sums of fractions would not be exact.
--
-- This machine's clock decides whether a page showed the job before something else was seen: the
-- workspace's clock may differ. What was imported counts as seen when it was made, and never later than
-- the file shows it.
WITH job AS MATERIALIZED (
  SELECT
    j.id,
    j._created_at AS created_at,
    {job_status} AS status,
    {job_stage} AS stage,
    round(10000 * j._paid_amount) AS own,
    EXISTS (SELECT 1 FROM json_each(j._unreadable) WHERE value = 'paid_amount') AS has_unread_sum,
    iif(j._changed_at = j._first_seen_at, j._changed_at, NULL) AS unchanged_since,
    j._last_seen_at IS NULL AS is_on_page,
    {seen_at} AS seen_at
  FROM jobs j
  WHERE j.id IN (SELECT value FROM json_each(:ids)) AND j._vanished_at IS NULL
),
change AS MATERIALIZED (
  SELECT
    j.id,
    r._created_at AS at,
    r._seq AS seq,
    {status} AS status,
    {stage} AS stage,
    coalesce({stage} = 'completed', 0) AS completes,
    {record_seen_at} AS seen_at,
    {who} AS who,
    -- NULL unless the id is an integer.
    iif(CAST(CAST(r.id AS INTEGER) AS TEXT) = r.id, CAST(r.id AS INTEGER), NULL) AS number
  FROM {of_changes}
),
-- The changes in the order in which they were made. One whose time cannot be read follows the one
-- with the next lower number.
placed AS MATERIALIZED (
  SELECT
    *,
    coalesce(
      at,
      iif(number IS NULL, NULL, coalesce(max(at) OVER (PARTITION BY id ORDER BY number), ''))
    ) AS place_at
  FROM change
),
newest AS MATERIALIZED (
  SELECT *
  FROM (
    SELECT
      *,
      row_number() OVER (PARTITION BY id ORDER BY place_at DESC, number DESC, seq DESC) AS place,
      max(number) OVER (PARTITION BY id) AS highest
    FROM placed
  )
  WHERE place = 1 AND place_at IS NOT NULL
),
-- The changes seen after the job of which nothing says when they were made: one of them may be the
-- newest.
untimed AS (
  SELECT p.id, count(*) AS changes
  FROM placed p
  JOIN job ON job.id = p.id
  WHERE p.place_at IS NULL AND p.seen_at > job.seen_at
  GROUP BY p.id
),
-- The change that completed the job is the first of those that follow each other. Without the time
-- between a completion and a reopening, it was open for open_seconds until then.
turn AS (
  SELECT
    id,
    at,
    completes,
    who,
    lag(at) OVER (PARTITION BY id ORDER BY place_at, number, seq) AS turn_before,
    row_number() OVER (PARTITION BY id ORDER BY place_at DESC, number DESC, seq DESC) AS place
  FROM (
    SELECT
      *,
      lag(completes, 1, 0) OVER (PARTITION BY id ORDER BY place_at, number, seq) AS was_completed
    FROM placed
    WHERE place_at IS NOT NULL
  )
  WHERE completes <> was_completed
),
completion AS (
  SELECT
    t.id,
    max(t.at) FILTER (WHERE t.place = 1) AS at,
    max(t.who) FILTER (WHERE t.place = 1) AS who,
    iif(
      job.created_at IS NULL OR count(t.at) < count(*),
      NULL,
      sum(max(0, unixepoch(t.at) - unixepoch(coalesce(t.turn_before, job.created_at))))
        FILTER (WHERE t.completes)
    ) AS open_seconds
  FROM turn t
  JOIN job ON job.id = t.id
  GROUP BY t.id
  HAVING sum(t.completes) > sum(NOT t.completes)
),
-- The times at which the job was completed and opened again in turns, the first completion first.
history AS (
  SELECT id, json_group_array(at ORDER BY place DESC) AS turns
  FROM turn
  GROUP BY id
),
-- The last change that says again that the job is completed. If changes before it were missed, it
-- may be the one that completed the job.
again AS (
  SELECT id, max(at) AS at
  FROM change
  WHERE completes
  GROUP BY id
),
-- A job on the newest page may hold the payments seen since, or not: the larger sum counts. For
-- another job: if its own sum is that of its first payments, all payments are in the mirror, and
-- their sum is the newer one. Otherwise earlier payments are not in the mirror: the payments seen
-- since are added to the job's own sum. A job may also deny payments that it should hold: then one of
-- both sums is wrong, and what was paid lies between them. While it is on the newest page, its sum may
-- hold each of the payments seen since, or not.
payment AS (
  SELECT
    job.id,
    job.own,
    p.amount,
    iif(p.amount IS NULL AND p.sign IS 1, 1, 0) AS is_more,
    iif(p.amount IS NULL AND p.sign IS NOT 1, 1, 0) AS is_unsure,
    p.seen_at > job.seen_at AS is_later,
    sum(p.amount) OVER (PARTITION BY p.id ORDER BY p.at, p.seq) AS so_far
  FROM (
    SELECT
      j.id,
      r._created_at AS at,
      r._seq AS seq,
      round(10000 * r._amount) AS amount,
      r._amount_sign AS sign,
      {record_seen_at} AS seen_at
    FROM {of_payments} AND r._kind IS NOT 'void'
  ) p
  JOIN job ON job.id = p.id
),
paid AS (
  SELECT
    id,
    coalesce(sum(amount), 0) AS total,
    coalesce(sum(amount) FILTER (WHERE is_later), 0) AS later,
    total(max(amount, 0)) FILTER (WHERE is_later) AS later_in,
    total(min(amount, 0)) FILTER (WHERE is_later) AS later_out,
    max(is_later) AS has_later,
    max(own = 0 OR so_far IS own) AS has_all,
    NOT max(is_unsure) AND (
      own < total(amount) FILTER (WHERE NOT is_later)
      OR own = total(amount) FILTER (WHERE NOT is_later) AND total(is_more) FILTER (WHERE NOT is_later) > 0
    ) AS denies,
    sum(is_more) AS more,
    sum(is_unsure) AS unsure,
    sum(is_more) FILTER (WHERE is_later) AS later_more,
    sum(is_unsure) FILTER (WHERE is_later) AS later_unsure
  FROM payment
  GROUP BY id
)
INSERT INTO _job_states (
  id, status, stage, since, is_since_seen, source, completed_at, open_seconds, paid, paid_upto, paid_more,
  paid_unsure, untimed_changes, last_change, completed_by, completed_again_at, is_cancelled, turns
)
SELECT
  now.id,
  now.status,
  now.stage,
  coalesce(now.status_at, iif(now.is_by_change, NULL, now.unchanged_since)),
  -- It may have had this status for longer than the mirror knows it.
  now.status_at IS NULL AND NOT now.is_by_change AND now.unchanged_since IS NOT NULL,
  iif(now.is_by_change, 'status change', 'job'),
  c.at,
  c.open_seconds,
  CASE
    WHEN now.own IS NULL THEN paid.total
    WHEN NOT coalesce(paid.has_later, 0) THEN now.own
    WHEN paid.denies AND now.is_on_page THEN now.own + paid.later_out
    WHEN now.is_on_page THEN max(now.own, paid.total)
    WHEN paid.denies THEN now.own + paid.later
    WHEN paid.has_all THEN paid.total
    ELSE now.own + paid.later
  END / 10000,
  CASE
    WHEN paid.denies AND now.is_on_page THEN max(now.own + paid.later_in, paid.total) / 10000
    WHEN paid.denies THEN paid.total / 10000
  END,
  -- The payments among these whose amount cannot be read. What the job denies is among what may be
  -- more.
  coalesce(
    CASE
      WHEN now.own IS NULL OR paid.denies THEN paid.more
      WHEN NOT coalesce(paid.has_later, 0) THEN 0
      WHEN now.is_on_page OR paid.has_all THEN paid.more
      ELSE paid.later_more
    END,
    0
  ),
  now.has_unread_sum + coalesce(
    CASE
      WHEN now.own IS NULL THEN paid.unsure
      WHEN NOT coalesce(paid.has_later, 0) THEN 0
      WHEN now.is_on_page OR paid.has_all THEN paid.unsure
      ELSE paid.later_unsure
    END,
    0
  ),
  coalesce(untimed.changes, 0),
  now.last_change,
  c.who,
  iif(again.at > c.at, again.at, NULL),
  now.is_cancelled,
  history.turns
FROM (
  SELECT
    *,
    iif(status IS newest_status, newest_at, NULL) AS status_at,
    stage IS 'completed' AND coalesce({is_cancelled}, 0) AS is_cancelled
  FROM (
    SELECT
      job.id,
      job.own,
      job.has_unread_sum,
      job.is_on_page,
      n.id IS NOT NULL AND job.seen_at < n.seen_at AS is_by_change,
      iif(job.seen_at < n.seen_at, n.status, job.status) AS status,
      iif(job.seen_at < n.seen_at, n.stage, job.stage) AS stage,
      job.unchanged_since,
      n.status AS newest_status,
      n.at AS newest_at,
      n.highest AS last_change
    FROM job
    LEFT JOIN newest n ON n.id = job.id
  )
) now
LEFT JOIN completion c ON c.id = now.id AND now.stage = 'completed' AND NOT now.is_cancelled
LEFT JOIN again ON again.id = c.id
LEFT JOIN history ON history.id = now.id
LEFT JOIN paid ON paid.id = now.id
LEFT JOIN untimed ON untimed.id = now.id

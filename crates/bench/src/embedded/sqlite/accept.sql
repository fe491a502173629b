-- One probe of the unique index; a duplicate changes nothing.
INSERT INTO queue (source, id, topic, payload) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING

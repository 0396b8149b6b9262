-- When a topic's messages count as accepted, layer by layer (NULL: as the layer below says, in the end each Broker's own
-- setting): disk, process or memory.
ALTER TABLE cluster ADD COLUMN durability TEXT;
ALTER TABLE broker ADD COLUMN durability TEXT;
ALTER TABLE deploy ADD COLUMN durability TEXT;

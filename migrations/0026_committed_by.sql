-- Who committed a hold, and so pays for it: an admin may commit the hold of another client. An expand step: a program that does
-- not write it leaves the hold with its creator.

ALTER TABLE holds ADD COLUMN committed_by text;

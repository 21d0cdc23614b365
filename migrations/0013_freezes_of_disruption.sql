-- A freeze may stop voluntary disruption alone. An expand step: a program that does not know of the column goes on
-- working, and stops launches as well under such a freeze.

ALTER TABLE freezes ADD COLUMN only_disruption boolean NOT NULL DEFAULT false;

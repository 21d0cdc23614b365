-- What listed instances run with, by which nodes drift: image, subnet, security groups, capacity reservation. Most instances of a
-- cluster have those of others, so a row of `listed_machines` names a row of contents.
-- An expand step: a program without these columns lists instances as before, and its listings have no details.

CREATE TABLE instance_details (
    id               integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- That of the listing.
    scope            text NOT NULL,
    -- Each is empty when the cloud did not say it.
    image            text NOT NULL,
    subnet           text NOT NULL,
    -- Sorted ids, separated by commas.
    security_groups  text NOT NULL,
    reservation      text NOT NULL,
    UNIQUE (scope, image, subnet, security_groups, reservation)
);

-- Id in `instance_details`; null when the cloud said nothing.
ALTER TABLE listed_machines ADD COLUMN details integer;

-- Number of the last listing that has details. A listing of another number is that of a program without them, which leaves the
-- column above as it was.
ALTER TABLE listings ADD COLUMN detailed_number bigint;

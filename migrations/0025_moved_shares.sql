-- For whose moved pods a machine was launched, so that what is bought later counts against the decision that has moved them. An
-- expand step: a program without it writes neither column, and its machines count against no earlier decision.

-- Numbers of the decisions, and the shares of the machine in parts per million in the same order; null for none.
ALTER TABLE machine_costs ADD COLUMN moved_by bigint[], ADD COLUMN moved_ppm bigint[];

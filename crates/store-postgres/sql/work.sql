-- Acknowledges, then claims: see work_1.sql. Plan: there.
select * from {schema}.work_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)

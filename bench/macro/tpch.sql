-- SPDX-License-Identifier: MIT OR Apache-2.0
-- The 22 questions of TPC-H (specification 3.0.1, Section 2.4), written for PostgreSQL with the parameters of its validation runs.
-- A line `-- Q<n>` begins a query.

-- Q1
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
FROM lineitem WHERE l_shipdate <= date '1998-09-02'
GROUP BY 1, 2 ORDER BY 1, 2;

-- Q2
WITH offers AS (
    SELECT ps_partkey, ps_supplycost, s_acctbal, s_name, n_name, s_address, s_phone, s_comment,
           min(ps_supplycost) OVER (PARTITION BY ps_partkey) AS lowest
    FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey
                  JOIN region ON r_regionkey = n_regionkey
    WHERE r_name = 'EUROPE' AND ps_partkey IN (SELECT p_partkey FROM part WHERE p_size = 15 AND p_type LIKE '%BRASS'))
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
FROM offers JOIN part ON p_partkey = ps_partkey
WHERE ps_supplycost = lowest
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100;

-- Q3
SELECT o_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
GROUP BY o_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10;

-- Q4
SELECT o_orderpriority, count(*)
FROM orders
WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1993-10-01'
  AND EXISTS (SELECT FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY 1 ORDER BY 1;

-- Q5
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM region JOIN nation ON n_regionkey = r_regionkey JOIN customer ON c_nationkey = n_nationkey
     JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
     JOIN supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
WHERE r_name = 'ASIA' AND o_orderdate >= date '1994-01-01' AND o_orderdate < date '1995-01-01'
GROUP BY 1 ORDER BY 2 DESC;

-- Q6
SELECT sum(l_extendedprice * l_discount)
FROM lineitem
WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;

-- Q7
SELECT s.n_name, c.n_name, extract(year FROM l_shipdate) AS year, sum(l_extendedprice * (1 - l_discount))
FROM lineitem JOIN supplier ON s_suppkey = l_suppkey JOIN nation s ON s.n_nationkey = s_nationkey
     JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey JOIN nation c ON c.n_nationkey = c_nationkey
WHERE (s.n_name, c.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE'))
  AND l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31'
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;

-- Q8
SELECT extract(year FROM o_orderdate) AS year,
       sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE s.n_name = 'BRAZIL') / sum(l_extendedprice * (1 - l_discount))
FROM part JOIN lineitem ON l_partkey = p_partkey JOIN supplier ON s_suppkey = l_suppkey JOIN nation s ON s.n_nationkey = s_nationkey
     JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey JOIN nation c ON c.n_nationkey = c_nationkey
     JOIN region ON r_regionkey = c.n_regionkey
WHERE r_name = 'AMERICA' AND o_orderdate BETWEEN date '1995-01-01' AND date '1996-12-31' AND p_type = 'ECONOMY ANODIZED STEEL'
GROUP BY 1 ORDER BY 1;

-- Q9
SELECT n_name, extract(year FROM o_orderdate) AS year,
       sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)
FROM part JOIN lineitem ON l_partkey = p_partkey JOIN supplier ON s_suppkey = l_suppkey
     JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
     JOIN orders ON o_orderkey = l_orderkey JOIN nation ON n_nationkey = s_nationkey
WHERE p_name LIKE '%green%'
GROUP BY 1, 2 ORDER BY 1, 2 DESC;

-- Q10
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment
FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey JOIN nation ON n_nationkey = c_nationkey
WHERE o_orderdate >= date '1993-10-01' AND o_orderdate < date '1994-01-01' AND l_returnflag = 'R'
GROUP BY c_custkey, n_name ORDER BY revenue DESC LIMIT 20;

-- Q11
WITH stock AS (
    SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
    FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey
    WHERE n_name = 'GERMANY' GROUP BY 1)
SELECT ps_partkey, value FROM stock
WHERE value > (SELECT sum(value) * 0.0001 FROM stock)
ORDER BY value DESC;

-- Q12
SELECT l_shipmode, count(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH')),
       count(*) FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH'))
FROM orders JOIN lineitem ON l_orderkey = o_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= date '1994-01-01' AND l_receiptdate < date '1995-01-01'
GROUP BY 1 ORDER BY 1;

-- Q13
WITH placed AS (
    SELECT c_custkey, count(o_orderkey) AS orders
    FROM customer LEFT JOIN orders ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%'
    GROUP BY 1)
SELECT orders, count(*) FROM placed GROUP BY 1 ORDER BY 2 DESC, 1 DESC;

-- Q14
SELECT 100 * sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE p_type LIKE 'PROMO%') / sum(l_extendedprice * (1 - l_discount))
FROM lineitem JOIN part ON p_partkey = l_partkey
WHERE l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-10-01';

-- Q15
WITH revenue AS (
    SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS total
    FROM lineitem WHERE l_shipdate >= date '1996-01-01' AND l_shipdate < date '1996-04-01' GROUP BY 1)
SELECT s_suppkey, s_name, s_address, s_phone, total
FROM supplier JOIN revenue ON l_suppkey = s_suppkey
WHERE total = (SELECT max(total) FROM revenue) ORDER BY 1;

-- Q16
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
FROM partsupp JOIN part ON p_partkey = ps_partkey
WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
  AND NOT EXISTS (SELECT FROM supplier WHERE s_suppkey = ps_suppkey AND s_comment LIKE '%Customer%Complaints%')
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3;

-- Q17
SELECT sum(l_extendedprice) / 7.0
FROM lineitem JOIN part ON p_partkey = l_partkey
WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'
  AND l_quantity < (SELECT 0.2 * avg(other.l_quantity) FROM lineitem other WHERE other.l_partkey = p_partkey);

-- Q18
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
FROM customer JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY 1 HAVING sum(l_quantity) > 300)
GROUP BY c_custkey, o_orderkey ORDER BY o_totalprice DESC, o_orderdate LIMIT 100;

-- Q19
SELECT sum(l_extendedprice * (1 - l_discount))
FROM lineitem JOIN part ON p_partkey = l_partkey
WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND p_size >= 1
  AND (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity BETWEEN 1 AND 11 AND p_size <= 5
    OR p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') AND l_quantity BETWEEN 10 AND 20 AND p_size <= 10
    OR p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') AND l_quantity BETWEEN 20 AND 30 AND p_size <= 15);

-- Q20
WITH sold AS (
    SELECT l_partkey, l_suppkey, 0.5 * sum(l_quantity) AS half
    FROM lineitem WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1995-01-01' GROUP BY 1, 2)
SELECT s_name, s_address
FROM supplier JOIN nation ON n_nationkey = s_nationkey
WHERE n_name = 'CANADA' AND s_suppkey IN (
    SELECT ps_suppkey FROM partsupp JOIN part ON p_partkey = ps_partkey JOIN sold ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
    WHERE p_name LIKE 'forest%' AND ps_availqty > half)
ORDER BY 1;

-- Q21
SELECT s_name, count(*) AS waits
FROM supplier JOIN lineitem late ON l_suppkey = s_suppkey JOIN orders ON o_orderkey = l_orderkey JOIN nation ON n_nationkey = s_nationkey
WHERE n_name = 'SAUDI ARABIA' AND o_orderstatus = 'F' AND late.l_receiptdate > late.l_commitdate
  AND EXISTS (SELECT FROM lineitem o WHERE o.l_orderkey = late.l_orderkey AND o.l_suppkey <> late.l_suppkey)
  AND NOT EXISTS (SELECT FROM lineitem o WHERE o.l_orderkey = late.l_orderkey AND o.l_suppkey <> late.l_suppkey
                  AND o.l_receiptdate > o.l_commitdate)
GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 100;

-- Q22
WITH rich AS (
    SELECT c_custkey, c_acctbal, substring(c_phone FOR 2) AS code
    FROM customer WHERE substring(c_phone FOR 2) IN ('13', '31', '23', '29', '30', '18', '17'))
SELECT code, count(*), sum(c_acctbal)
FROM rich
WHERE c_acctbal > (SELECT avg(c_acctbal) FROM rich WHERE c_acctbal > 0) AND NOT EXISTS (SELECT FROM orders WHERE o_custkey = c_custkey)
GROUP BY 1 ORDER BY 1;

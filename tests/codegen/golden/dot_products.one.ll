; dot_products: 1 lanes
declare { i64, i1 } @llvm.uadd.with.overflow.i64(i64, i64)

define internal fastcc i64 @"accumulate"(i64 %a0, i64 %a1, i64 %a2) noinline nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %v0 = and i64 %a1, 4503599627370495
  %v1 = and i64 %a2, 4503599627370495
  %v2 = mul i64 %v0, %v1
  %v3 = and i64 %v2, 4503599627370495
  %v4 = add i64 %a0, %v3
  ret i64 %v4
}

define void @"dot_products"(ptr noalias %arguments, ptr noalias %counter, i64 %groups, i64 %chunk) nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %s0 = getelementptr i64, ptr %arguments, i64 0
  %p0 = load i32, ptr %s0
  %s1 = getelementptr i64, ptr %arguments, i64 1
  %p1 = load ptr, ptr %s1
  %s2 = getelementptr i64, ptr %arguments, i64 2
  %p2 = load ptr, ptr %s2
  %s3 = getelementptr i64, ptr %arguments, i64 3
  %p3 = load ptr, ptr %s3
  %groups32 = trunc i64 %groups to i32
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %chunk monotonic
  %more = icmp ult i64 %first, %groups
  br i1 %more, label %begin, label %finished
begin:
  %wanted = add i64 %first, %chunk
  %fits = icmp ult i64 %wanted, %groups
  %last = select i1 %fits, i64 %wanted, i64 %groups
  br label %group
group:
  %index = phi i64 [ %first, %begin ], [ %following, %next ]
  %group32 = trunc i64 %index to i32
  %v0 = add i32 %group32, 0
  %v1 = icmp ult i32 %v0, %p0
  br i1 %v1, label %then3, label %else4
then3:
  %v5 = mul i32 %v0, 4
  %v6 = zext i32 %v5 to i64
  %v7 = getelementptr i64, ptr %p1, i64 %v6
  %v8 = load i64, ptr %v7, align 4
  %v9 = getelementptr i64, ptr %v7, i64 1
  %v10 = load i64, ptr %v9, align 4
  %v11 = getelementptr i64, ptr %v7, i64 2
  %v12 = load i64, ptr %v11, align 4
  %v13 = getelementptr i64, ptr %v7, i64 3
  %v14 = load i64, ptr %v13, align 4
  %v15 = zext i32 %v5 to i64
  %v16 = getelementptr i64, ptr %p2, i64 %v15
  %v17 = load i64, ptr %v16, align 4
  %v18 = getelementptr i64, ptr %v16, i64 1
  %v19 = load i64, ptr %v18, align 4
  %v20 = getelementptr i64, ptr %v16, i64 2
  %v21 = load i64, ptr %v20, align 4
  %v22 = getelementptr i64, ptr %v16, i64 3
  %v23 = load i64, ptr %v22, align 4
  %v24 = call fastcc i64 @"accumulate"(i64 %v8, i64 %v8, i64 %v17)
  %v25 = call fastcc i64 @"accumulate"(i64 %v24, i64 %v10, i64 %v19)
  %v26 = call fastcc i64 @"accumulate"(i64 %v25, i64 %v12, i64 %v21)
  %v27 = call fastcc i64 @"accumulate"(i64 %v26, i64 %v14, i64 %v23)
  %v28 = call { i64, i1 } @llvm.uadd.with.overflow.i64(i64 %v27, i64 %v10)
  %v29 = extractvalue { i64, i1 } %v28, 0
  %v30 = extractvalue { i64, i1 } %v28, 1
  %v31 = call { i64, i1 } @llvm.uadd.with.overflow.i64(i64 %v12, i64 %v23)
  %v32 = extractvalue { i64, i1 } %v31, 0
  %v33 = extractvalue { i64, i1 } %v31, 1
  %v34 = zext i1 %v30 to i64
  %v35 = call { i64, i1 } @llvm.uadd.with.overflow.i64(i64 %v32, i64 %v34)
  %v36 = extractvalue { i64, i1 } %v35, 0
  %v37 = extractvalue { i64, i1 } %v35, 1
  %v38 = or i1 %v33, %v37
  %v39 = mul i32 %v0, 2
  %v40 = zext i32 %v39 to i64
  %v41 = getelementptr i64, ptr %p3, i64 %v40
  store i64 %v29, ptr %v41, align 4
  %v42 = getelementptr i64, ptr %v41, i64 1
  store i64 %v36, ptr %v42, align 4
  br label %merge5
else4:
  br label %merge5
merge5:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}

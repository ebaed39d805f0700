; histogram: 8 lanes
declare <8 x i32> @llvm.masked.load.v8i32.p0(ptr, i32, <8 x i1>, <8 x i32>)

define void @"histogram"(ptr noalias %arguments, ptr noalias %counter, i64 %groups, i64 %chunk) nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %s0 = getelementptr i64, ptr %arguments, i64 0
  %p0 = load i32, ptr %s0
  %s1 = getelementptr i64, ptr %arguments, i64 1
  %p1 = load ptr, ptr %s1
  %s2 = getelementptr i64, ptr %arguments, i64 2
  %p2 = load i32, ptr %s2
  %s3 = getelementptr i64, ptr %arguments, i64 3
  %p3 = load ptr, ptr %s3
  %m0 = alloca [64 x i8], align 64
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
  %v0 = mul i32 %groups32, 8
  %v1 = mul i32 %group32, 8
  %v2 = insertelement <8 x i32> poison, i32 %v1, i64 0
  %v3 = shufflevector <8 x i32> %v2, <8 x i32> poison, <8 x i32> zeroinitializer
  %v4 = add <8 x i32> %v3, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v5 = insertelement <8 x i32> poison, i32 %p0, i64 0
  %v6 = shufflevector <8 x i32> %v5, <8 x i32> poison, <8 x i32> zeroinitializer
  %v7 = insertelement <8 x i32> poison, i32 %v0, i64 0
  %v8 = shufflevector <8 x i32> %v7, <8 x i32> poison, <8 x i32> zeroinitializer
  br label %head10
head10:
  %v12 = phi <8 x i32> [ %v4, %group ], [ %v65, %body11 ]
  %v13 = phi <8 x i1> [ splat (i1 true), %group ], [ %v15, %body11 ]
  %v14 = icmp ult <8 x i32> %v12, %v6
  %v15 = and <8 x i1> %v13, %v14
  %v16 = bitcast <8 x i1> %v15 to i8
  %v17 = icmp ne i8 %v16, 0
  br i1 %v17, label %body11, label %done12
body11:
  %v18 = extractelement <8 x i32> %v12, i64 0
  %v19 = zext i32 %v18 to i64
  %v20 = getelementptr i32, ptr %p1, i64 %v19
  %v21 = call <8 x i32> @llvm.masked.load.v8i32.p0(ptr %v20, i32 4, <8 x i1> %v15, <8 x i32> zeroinitializer)
  %v22 = insertelement <8 x i32> poison, i32 %p2, i64 0
  %v23 = shufflevector <8 x i32> %v22, <8 x i32> poison, <8 x i32> zeroinitializer
  %v24 = icmp eq <8 x i32> %v23, zeroinitializer
  %v25 = select <8 x i1> %v24, <8 x i32> splat (i32 1), <8 x i32> %v23
  %v26 = urem <8 x i32> %v21, %v25
  %v27 = select <8 x i1> %v24, <8 x i32> %v21, <8 x i32> %v26
  %v28 = zext <8 x i32> %v27 to <8 x i64>
  %v29 = getelementptr i32, ptr %p3, <8 x i64> %v28
  %v30 = insertelement <8 x ptr> poison, ptr %m0, i64 0
  %v31 = shufflevector <8 x ptr> %v30, <8 x ptr> poison, <8 x i32> zeroinitializer
  %v32 = select <8 x i1> %v15, <8 x ptr> %v29, <8 x ptr> %v31
  %v33 = extractelement <8 x ptr> %v32, i64 0
  %v34 = extractelement <8 x i32> splat (i32 1), i64 0
  %v35 = atomicrmw add ptr %v33, i32 %v34 monotonic
  %v36 = insertelement <8 x i32> poison, i32 %v35, i64 0
  %v37 = extractelement <8 x ptr> %v32, i64 1
  %v38 = extractelement <8 x i32> splat (i32 1), i64 1
  %v39 = atomicrmw add ptr %v37, i32 %v38 monotonic
  %v40 = insertelement <8 x i32> %v36, i32 %v39, i64 1
  %v41 = extractelement <8 x ptr> %v32, i64 2
  %v42 = extractelement <8 x i32> splat (i32 1), i64 2
  %v43 = atomicrmw add ptr %v41, i32 %v42 monotonic
  %v44 = insertelement <8 x i32> %v40, i32 %v43, i64 2
  %v45 = extractelement <8 x ptr> %v32, i64 3
  %v46 = extractelement <8 x i32> splat (i32 1), i64 3
  %v47 = atomicrmw add ptr %v45, i32 %v46 monotonic
  %v48 = insertelement <8 x i32> %v44, i32 %v47, i64 3
  %v49 = extractelement <8 x ptr> %v32, i64 4
  %v50 = extractelement <8 x i32> splat (i32 1), i64 4
  %v51 = atomicrmw add ptr %v49, i32 %v50 monotonic
  %v52 = insertelement <8 x i32> %v48, i32 %v51, i64 4
  %v53 = extractelement <8 x ptr> %v32, i64 5
  %v54 = extractelement <8 x i32> splat (i32 1), i64 5
  %v55 = atomicrmw add ptr %v53, i32 %v54 monotonic
  %v56 = insertelement <8 x i32> %v52, i32 %v55, i64 5
  %v57 = extractelement <8 x ptr> %v32, i64 6
  %v58 = extractelement <8 x i32> splat (i32 1), i64 6
  %v59 = atomicrmw add ptr %v57, i32 %v58 monotonic
  %v60 = insertelement <8 x i32> %v56, i32 %v59, i64 6
  %v61 = extractelement <8 x ptr> %v32, i64 7
  %v62 = extractelement <8 x i32> splat (i32 1), i64 7
  %v63 = atomicrmw add ptr %v61, i32 %v62 monotonic
  %v64 = insertelement <8 x i32> %v60, i32 %v63, i64 7
  %v65 = add <8 x i32> %v12, %v8
  br label %head10
done12:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}
